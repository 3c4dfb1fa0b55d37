#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sluice {

// ASCII only, independent of the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

inline std::string to_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = to_lower(c);
  return result;
}

constexpr bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char c, char d) { return to_lower(c) == to_lower(d); });
}

// Removes spaces and tabs from the beginning of `text`: the optional white space of HTTP (RFC 9110, 5.6.3).
constexpr void skip_blanks(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}
// Returns `text` without the spaces and tabs at its beginning and end.
constexpr std::string_view trim_blanks(std::string_view text) {
  skip_blanks(text);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

}  // namespace sluice
