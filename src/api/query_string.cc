#include "api/query_string.h"

#include "base/hex.h"

namespace sluice::api {
namespace {

bool is_plain(std::string_view text) { return text.find_first_of("%+") == std::string_view::npos; }

// Takes the next decoded byte off the text; nothing where it is an escape that is none.
std::optional<char> next_byte(std::string_view& text) {
  char byte = text[0];
  std::size_t taken = 1;
  if (byte == '+') {
    byte = ' ';
  } else if (byte == '%') {
    const int high = text.size() >= 3 ? hex_digit(text[1]) : -1;
    const int low = text.size() >= 3 ? hex_digit(text[2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    byte = static_cast<char>(high * 16 + low);
    taken = 3;
  }
  text.remove_prefix(taken);
  return byte;
}

bool equals_decoded(std::string_view encoded, std::string_view plain) {
  if (is_plain(encoded)) return encoded == plain;
  while (!encoded.empty() && !plain.empty()) {
    if (next_byte(encoded) != plain[0]) return false;
    plain.remove_prefix(1);
  }
  return encoded.empty() && plain.empty();
}

}  // namespace

bool append_decoded(std::string_view encoded, std::string& out) {
  while (!encoded.empty()) {
    const auto byte = next_byte(encoded);
    if (!byte) return false;
    out += *byte;
  }
  return true;
}

std::optional<QueryString::Value> QueryString::find(std::string_view name) const {
  for (std::string_view rest = query_; !rest.empty();) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const auto equals = pair.find('=');
    if (!equals_decoded(pair.substr(0, equals), name)) continue;
    std::string_view value = equals == std::string_view::npos ? std::string_view{"", 0} : pair.substr(equals + 1);
    if (is_plain(value)) return Value{value};
    const std::size_t begin = scratch_.size();
    const bool broken = !append_decoded(value, scratch_);
    return Value{std::string_view(scratch_).substr(begin), broken};
  }
  return std::nullopt;
}

}  // namespace sluice::api
