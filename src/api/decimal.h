#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::api {

// An exact decimal number: digits * 10^exponent. The digits neither begin nor end with a zero, so equal numbers are
// equal values. Zero has no digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;

  friend bool operator==(const Decimal&, const Decimal&) = default;
  friend std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);
};

// Parses `-1.50e3`. Returns nullopt if the text is not a number or its exponent exceeds a million.
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view text);

// The shortest notation without an exponent: `-1500`, `0.015`. Its length grows with the exponent.
[[nodiscard]] std::string plain(const Decimal& number);

}  // namespace sluice::api
