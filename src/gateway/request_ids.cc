#include "gateway/request_ids.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <openssl/rand.h>

#include "base/ascii.h"
#include "http/fields.h"
#include "http/request_id.h"

namespace sluice::gateway {
namespace {

constexpr std::size_t longest_id = 128;
constexpr std::size_t id_bytes = 16;
constexpr std::string_view hex_digits = "0123456789abcdef";

// Whether the text is safe in logs and for other servers.
bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= longest_id && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("-_.").contains(c);
  });
}

// The trace id of a `traceparent` of version 00 (W3C Trace Context, 3.2); empty if the text is not valid.
std::string_view trace_id_of(std::string_view text) {
  if (text.size() != 55 || !text.starts_with("00-") || text[35] != '-' || text[52] != '-') return {};
  const auto is_hex = [](std::string_view part) { return part.find_first_not_of(hex_digits) == part.npos; };
  const auto is_id = [&](std::string_view part) { return is_hex(part) && part.find_first_not_of('0') != part.npos; };
  const std::string_view trace = text.substr(3, 32);
  return is_id(trace) && is_id(text.substr(36, 16)) && is_hex(text.substr(53)) ? trace : std::string_view{};
}

// The only value of the field; empty if absent or repeated.
std::string_view only_value(std::span<const http::Field> fields, std::string_view name) {
  std::string_view value;
  bool found = false;
  for (const http::Field& field : fields) {
    if (!http::same_name(field.name, name)) continue;
    if (std::exchange(found, true)) return {};
    value = field.value;
  }
  return value;
}

}  // namespace

void RequestIds::append_id(const http::Request& request, std::string& text) {
  if (request.from_proxy) {
    auto given = only_value(request.fields, "x-request-id");
    if (!is_id(given)) given = trace_id_of(only_value(request.fields, "traceparent"));
    text += given;
    if (!given.empty()) return;
  }
  if (used_random_ == random_.size()) {
    if (RAND_bytes(random_.data(), static_cast<int>(random_.size())) != 1) {
      throw std::runtime_error("there is no randomness");
    }
    used_random_ = 0;
  }
  for (std::size_t i = 0; i < id_bytes; ++i) {
    const unsigned char byte = random_[used_random_++];
    text += hex_digits[byte >> 4];
    text += hex_digits[byte & 15];
  }
}

void RequestIds::give(http::Exchange& exchange, ChangedRequest& changed) {
  if (!http::request_id_of(exchange).empty()) return;
  append_id(exchange.request, changed.id);
  exchange.attributes.set(http::RequestId{changed.id});
}

}  // namespace sluice::gateway
