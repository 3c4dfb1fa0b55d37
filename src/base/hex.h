#pragma once

namespace sluice {

// -1 for a byte that is no hexadecimal digit.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace sluice
