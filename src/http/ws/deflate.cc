#include "http/ws/deflate.h"

#include <algorithm>
#include <new>
#include <optional>

#include <zlib.h>

#include "http/h1/scan.h"

namespace sluice::http::ws {
namespace {

// Small tables: they are cleared for each message that stands alone, and kept by each connection whose don't.
constexpr int level = 4;
constexpr int memory_level = 6;

constexpr std::string_view flush_end("\x00\x00\xff\xff", 4);

Bytef* bytes_of(std::string_view text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text.data())); }

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
    while (size < rest_.size() && h1::is_token_char(rest_[size])) ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  // A token, quoted or not: what stands in quotes must be a token as well (RFC 6455, 9.1). Empty: neither.
  std::string_view value() {
    if (!take('"')) return token();
    std::size_t size = 0;
    while (size < rest_.size() && h1::is_token_char(rest_[size])) ++size;
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

// 8 to 15, without leading zeros; 0 for what is not.
std::uint8_t window_bits_of(std::string_view text) {
  if (text == "8" || text == "9") return static_cast<std::uint8_t>(text[0] - '0');
  if (text.size() == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '5') {
    return static_cast<std::uint8_t>(10 + text[1] - '0');
  }
  return 0;
}

// One offer: what its parameters say.
struct Offer {
  bool acceptable = true;
  bool server_no_context_takeover = false;
  bool client_no_context_takeover = false;
  std::optional<std::uint8_t> server_window_bits;
  std::optional<std::uint8_t> client_window_bits;  // 15 where the parameter had no value

  // A parameter that is unknown, twice there, or has a wrong value: the offer is declined (RFC 7692, 7.1).
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
  DeflateParameters& agreed = result.parameters;
  agreed.server_no_context_takeover = offer.server_no_context_takeover || !policy.context_takeover;
  agreed.client_no_context_takeover = offer.client_no_context_takeover || !policy.context_takeover;
  agreed.server_window_bits = std::min(policy.window_bits, offer.server_window_bits.value_or(15));
  // A client that has not offered it keeps its window of 32 KiB (RFC 7692, 7.1.2.2).
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

Deflater::Deflater(int window_bits) : stream_(std::make_unique<z_stream_s>()) {
  // zlib has no raw window of 256 bytes. Of one of 512 it uses distances up to 512 - 262 only (its look-ahead), so
  // that does for both.
  const int bits = std::max(window_bits, 9);
  if (deflateInit2(stream_.get(), level, Z_DEFLATED, -bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

Deflater::~Deflater() { deflateEnd(stream_.get()); }

void Deflater::compress(std::string_view message, Buffer& out, bool keep_context) {
  // An empty message is an empty block that is not stored; a flush after a flush would give nothing (RFC
  // 7692, 7.2.3.6).
  if (message.empty()) return out.push_back('\0');
  stream_->next_in = bytes_of(message);
  constexpr std::size_t most_in = 1u << 30;
  [[maybe_unused]] const std::size_t before = out.size();
  do {
    const std::size_t part = std::min(message.size(), most_in);
    message.remove_prefix(part);
    stream_->avail_in = static_cast<uInt>(part);
    const int flush = message.empty() ? Z_SYNC_FLUSH : Z_NO_FLUSH;
    // Done when it leaves room: a flush that fills the output exactly may have more to say.
    do {
      const std::size_t room = std::clamp<std::size_t>(part / 2 + 64, 256, 64 * 1024);
      stream_->next_out = reinterpret_cast<Bytef*>(out.reserve(room));
      stream_->avail_out = static_cast<uInt>(room);
      deflate(stream_.get(), flush);
      out.commit(room - stream_->avail_out);
    } while (stream_->avail_out == 0);
  } while (!message.empty());
  SLUICE_ASSERT(out.size() >= before + flush_end.size() && out.view().ends_with(flush_end));
  out.truncate(out.size() - flush_end.size());
  if (!keep_context) deflateReset(stream_.get());
}

Inflater::Inflater(int window_bits) : stream_(std::make_unique<z_stream_s>()) {
  if (inflateInit2(stream_.get(), -window_bits) != Z_OK) throw std::bad_alloc();
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

void Inflater::restart_after_final_block() {
  // A block with BFINAL ends zlib's stream, not the message, nor what later messages may refer to (RFC 7692, 7.2.3.4).
  std::array<Bytef, 32768> window;
  uInt size = window.size();
  const auto in = stream_->next_in;
  const auto left = stream_->avail_in;
  inflateGetDictionary(stream_.get(), window.data(), &size);
  inflateReset(stream_.get());
  inflateSetDictionary(stream_.get(), window.data(), size);
  stream_->next_in = in;
  stream_->avail_in = left;
}

Inflater::Outcome Inflater::feed(std::string_view bytes, Buffer& out, std::size_t limit_size) {
  stream_->next_in = bytes_of(bytes);
  stream_->avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    // One byte more than allowed tells a message that is too large from one that just fits.
    const std::size_t room =
        std::clamp<std::size_t>(limit_size + 1 - out.size(), 1, std::max<std::size_t>(bytes.size() * 4, 4096));
    stream_->next_out = reinterpret_cast<Bytef*>(out.reserve(room));
    stream_->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream_.get(), Z_SYNC_FLUSH);
    out.commit(room - stream_->avail_out);
    if (out.size() > limit_size) return Outcome::too_large;
    if (result == Z_STREAM_END) {
      restart_after_final_block();
      if (stream_->avail_in == 0) return Outcome::done;
      continue;
    }
    if (result != Z_OK && result != Z_BUF_ERROR) return Outcome::malformed;
    if (stream_->avail_in == 0 && stream_->avail_out != 0) return Outcome::done;
    if (result == Z_BUF_ERROR && stream_->avail_out != 0) return Outcome::malformed;
  }
}

Inflater::Outcome Inflater::decompress(std::string_view payload, Buffer& out, std::size_t limit, bool keep_context) {
  const std::size_t limit_size = out.size() + limit;
  Outcome outcome = feed(payload, out, limit_size);
  if (outcome == Outcome::done) outcome = feed(flush_end, out, limit_size);
  // The flush's empty block has been read as one, not as the inside of a block that the payload left open.
  constexpr int between_blocks = 128;
  if (outcome == Outcome::done && (stream_->data_type & between_blocks) == 0) outcome = Outcome::malformed;
  if (outcome != Outcome::done || !keep_context) inflateReset(stream_.get());
  return outcome;
}

Deflater& SharedCodecs::deflater(int window_bits) {
  auto& deflater = deflaters_[static_cast<std::size_t>(window_bits)];
  if (!deflater) deflater = std::make_unique<Deflater>(window_bits);
  return *deflater;
}

Inflater& SharedCodecs::inflater() {
  if (!inflater_) inflater_ = std::make_unique<Inflater>(15);
  return *inflater_;
}

}  // namespace sluice::http::ws
