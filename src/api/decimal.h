#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::api {

// A decimal number as it is written, exactly: digits * 10^exponent. The digits neither begin nor end with a zero, so
// that equal numbers are equal values; zero has none.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// `-1.50e3`; nothing: it is not one, or its exponent is beyond a million.
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view text);

// Without an exponent and without a digit more than it takes: `-1500`, `0.015`. As long as the exponent is large.
[[nodiscard]] std::string plain(const Decimal& number);

}  // namespace sluice::api
