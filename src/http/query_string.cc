#include "http/query_string.h"

#include <algorithm>

#include "base/hex.h"

namespace sluice::http {
namespace {

// A loop, because find_first_of() would call memchr() for each byte.
bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '%' || c == '+'; });
}

// Removes the next byte from the text and returns it decoded. Returns nothing at an invalid escape.
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

}  // namespace

bool append_decoded(std::string_view encoded, std::string& out) {
  while (!encoded.empty()) {
    const auto byte = next_byte(encoded);
    if (!byte) return false;
    out += *byte;
  }
  return true;
}

bool equals_decoded(std::string_view encoded, std::string_view plain) {
  if (is_plain(encoded)) return encoded == plain;
  while (!encoded.empty() && !plain.empty()) {
    if (next_byte(encoded) != plain[0]) return false;
    plain.remove_prefix(1);
  }
  return encoded.empty() && plain.empty();
}

QueryPairs::Pair QueryPairs::next() {
  const std::string_view pair = rest_.substr(0, rest_.find('&'));
  rest_.remove_prefix(pair.size());
  skip();
  const auto equals = pair.find('=');
  if (equals == pair.npos) return {.name = pair, .value = {pair.data() + pair.size(), 0}};
  return {.name = pair.substr(0, equals), .value = pair.substr(equals + 1)};
}

bool QueryPairs::has(std::string_view name) const {
  for (QueryPairs left = *this; !left.done();) {
    if (equals_decoded(left.next().name, name)) return true;
  }
  return false;
}

std::optional<QueryString::Value> QueryString::next(std::string_view name, QueryPairs& pairs) const {
  while (!pairs.done()) {
    const auto [encoded, value] = pairs.next();
    if (!equals_decoded(encoded, name)) continue;
    if (is_plain(value)) return Value{value};
    const std::size_t begin = scratch_.size();
    const bool broken = !append_decoded(value, scratch_);
    return Value{std::string_view(scratch_).substr(begin), broken};
  }
  return std::nullopt;
}

}  // namespace sluice::http
