#pragma once

namespace sluice {

// The value of a hexadecimal digit, or -1 for any other byte.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace sluice
