#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Characters in UTF-8, and in JSON's \u notation (one or two escapes, each a UTF-16 code unit).
namespace sluice {

// Whether the text is valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text);

inline constexpr std::size_t longest_utf8 = 4;

// Writes a character of up to longest_utf8 bytes and returns the end. Precondition: code <= 0x10ffff.
constexpr char* put_utf8(char* to, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
  return to;
}

inline void append_utf8(std::string& out, std::uint32_t code) {
  char bytes[longest_utf8];
  out.append(bytes, put_utf8(bytes, code));
}

// The first and the second code unit of a surrogate pair.
constexpr bool is_high_surrogate(std::uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
constexpr bool is_low_surrogate(std::uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }
// The character that a surrogate pair encodes.
constexpr std::uint32_t join_surrogates(std::uint32_t high, std::uint32_t low) {
  return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

}  // namespace sluice
