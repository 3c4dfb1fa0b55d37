#include "http/websocket/extensions.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "http/h1/scan.h"

namespace sluice::http::websocket {
namespace {

// extension-list = 1#( token *( ";" token [ "=" ( token / quoted-string ) ] ) ), read from left to right.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() {
    skip_space();
    return rest_.empty();
  }
  bool take(char mark) {
    skip_space();
    if (rest_.empty() || rest_.front() != mark) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view token() {
    skip_space();
    std::size_t size = 0;
    while (size < rest_.size() && is_token_char(rest_[size])) ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  // Reads a token or a quoted string, whose content must also be a token (RFC 6455, 9.1). Empty if there is neither.
  std::string_view value() {
    if (!take('"')) return token();
    std::size_t size = 0;
    while (size < rest_.size() && is_token_char(rest_[size])) ++size;
    const std::string_view found = rest_.substr(0, size);
    if (size == rest_.size() || rest_[size] != '"') return {};
    rest_.remove_prefix(size + 1);
    return found;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && h1::is_ows(rest_.front())) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

// Parses 8 to 15 without leading zeros. Returns 0 for anything else.
std::uint8_t window_bits_of(std::string_view text) {
  if (text == "8" || text == "9") return static_cast<std::uint8_t>(text[0] - '0');
  if (text.size() == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '5') {
    return static_cast<std::uint8_t>(10 + text[1] - '0');
  }
  return 0;
}

// The parameters of one offer.
struct Offer {
  bool acceptable = true;
  bool server_no_context_takeover = false;
  bool client_no_context_takeover = false;
  std::optional<std::uint8_t> server_window_bits;
  std::optional<std::uint8_t> client_window_bits;  // 15 if the parameter has no value

  // An unknown, repeated or invalid parameter declines the offer (RFC 7692, 7.1).
  void add(std::string_view name, std::optional<std::string_view> value) {
    bool fits = false;
    if (same_name(name, "server_no_context_takeover")) {
      fits = !value && !server_no_context_takeover;
      server_no_context_takeover = true;
    } else if (same_name(name, "client_no_context_takeover")) {
      fits = !value && !client_no_context_takeover;
      client_no_context_takeover = true;
    } else if (same_name(name, "server_max_window_bits")) {
      fits = value && !server_window_bits && window_bits_of(*value) != 0;
      server_window_bits = value ? window_bits_of(*value) : std::uint8_t{0};
    } else if (same_name(name, "client_max_window_bits")) {
      fits = !client_window_bits && (!value || window_bits_of(*value) != 0);
      client_window_bits = value ? window_bits_of(*value) : std::uint8_t{15};
    }
    acceptable = acceptable && fits;
  }
};

Negotiation agree(const Offer& offer, const DeflatePolicy& policy) {
  Negotiation result;
  result.outcome = Negotiation::Outcome::agreed;
  ws::DeflateParameters& agreed = result.parameters;
  agreed.server_no_context_takeover = offer.server_no_context_takeover || !policy.context_takeover;
  agreed.client_no_context_takeover = offer.client_no_context_takeover || !policy.context_takeover;
  agreed.server_window_bits = std::min(policy.window_bits, offer.server_window_bits.value_or(15));
  // A client that has not offered client_max_window_bits uses a window of 32 KiB (RFC 7692, 7.1.2.2).
  if (offer.client_window_bits) {
    agreed.client_window_bits = std::min(policy.window_bits, *offer.client_window_bits);
  }
  std::string& text = result.response;
  text = "permessage-deflate";
  if (agreed.server_no_context_takeover) text += "; server_no_context_takeover";
  if (agreed.client_no_context_takeover) text += "; client_no_context_takeover";
  if (offer.server_window_bits || agreed.server_window_bits < 15) {
    text += "; server_max_window_bits=" + std::to_string(agreed.server_window_bits);
  }
  if (agreed.client_window_bits < 15) {
    text += "; client_max_window_bits=" + std::to_string(agreed.client_window_bits);
  }
  return result;
}

}  // namespace

Negotiation negotiate_deflate(std::span<const Field> fields, const DeflatePolicy& policy) {
  Negotiation result;
  for (const Field& field : fields) {
    if (!same_name(field.name, "sec-websocket-extensions")) continue;
    ListReader reader(field.value);
    while (!reader.done()) {
      if (reader.take(',')) continue;  // an empty element
      const std::string_view name = reader.token();
      if (name.empty()) return {.outcome = Negotiation::Outcome::malformed, .parameters = {}, .response = {}};
      Offer offer;
      while (reader.take(';')) {
        const std::string_view parameter = reader.token();
        std::optional<std::string_view> value;
        if (reader.take('=')) value = reader.value();
        if (parameter.empty() || (value && value->empty())) {
          return {.outcome = Negotiation::Outcome::malformed, .parameters = {}, .response = {}};
        }
        offer.add(parameter, value);
      }
      if (!reader.done() && !reader.take(',')) {
        return {.outcome = Negotiation::Outcome::malformed, .parameters = {}, .response = {}};
      }
      if (result.outcome == Negotiation::Outcome::none && offer.acceptable && same_name(name, "permessage-deflate")) {
        result = agree(offer, policy);
      }
    }
  }
  return result;
}

}  // namespace sluice::http::websocket
