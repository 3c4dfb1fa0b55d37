#include "http/escape.h"

#include <cstddef>
#include <cstdint>

#include "http/target.h"

namespace sluice::http {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

// The size of the first character in bytes; 0 if the text does not begin with valid UTF-8 (RFC 3629).
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                           : (first & 0xF0) == 0xE0         ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const std::uint8_t second = byte(1);
  // An overlong encoding, a surrogate, or a character beyond U+10FFFF.
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
      (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return size;
}

template <class Append>
void for_each_character(std::string& out, std::string_view text, Append append) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) {
      out += replacement;
      text.remove_prefix(1);
    } else {
      append(text.substr(0, size));
      text.remove_prefix(size);
    }
  }
}

constexpr std::string_view hex = "0123456789ABCDEF";

}  // namespace

void append_url_path(std::string& out, std::string_view text) { append_escaped(out, text, "/"); }

void append_html(std::string& out, std::string_view text) {
  for_each_character(out, text, [&](std::string_view character) {
    const char c = character[0];
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<std::uint8_t>(c) < 0x20 || c == 0x7F) {
      out += replacement;
    } else {
      out += character;
    }
  });
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for_each_character(out, text, [&](std::string_view character) {
    const char c = character[0];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<std::uint8_t>(c) < 0x20) {
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 0xF];
    } else {
      out += character;
    }
  });
  out += '"';
}

}  // namespace sluice::http
