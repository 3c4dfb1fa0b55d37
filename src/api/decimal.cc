#include "api/decimal.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace sluice::api {

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  const auto sign = [](const Decimal& one) { return one.digits.empty() ? 0 : one.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) <=> sign(b);
  // The number is 0.DIGITS times ten to this power.
  const auto power = [](const Decimal& one) { return one.exponent + static_cast<std::int64_t>(one.digits.size()); };
  const auto by_power = power(a) <=> power(b);
  const std::strong_ordering by_size = by_power != 0 ? by_power : a.digits <=> b.digits;
  return a.negative ? 0 <=> by_size : by_size;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr std::int64_t most_exponent = 1'000'000;
  Decimal number;
  number.negative = text.starts_with('-');
  if (number.negative) text.remove_prefix(1);
  const auto e = text.find_first_of("eE");
  if (e != text.npos) {
    std::string_view exponent = text.substr(e + 1);
    const bool plus = exponent.starts_with('+');
    if (plus) exponent.remove_prefix(1);
    const char* const end = exponent.data() + exponent.size();
    const auto [stop, error] = std::from_chars(exponent.data(), end, number.exponent);
    if (error != std::errc{} || stop != end || (plus && exponent.starts_with('-')) || number.exponent > most_exponent ||
        number.exponent < -most_exponent) {
      return std::nullopt;
    }
    text = text.substr(0, e);
  }
  const auto point = text.find('.');
  number.digits = text.substr(0, point);
  if (point != text.npos) {
    number.digits += text.substr(point + 1);
    number.exponent -= static_cast<std::int64_t>(text.size() - point - 1);
  }
  if (number.digits.empty() || !std::ranges::all_of(number.digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  number.digits.erase(0, std::min(number.digits.find_first_not_of('0'), number.digits.size()));
  const auto last = number.digits.find_last_not_of('0');
  const std::size_t size = last == std::string::npos ? 0 : last + 1;
  number.exponent += static_cast<std::int64_t>(number.digits.size() - size);
  number.digits.resize(size);
  if (size == 0) return Decimal{};
  return number;
}

std::string plain(const Decimal& number) {
  if (number.digits.empty()) return "0";
  std::string text = number.digits;
  if (number.exponent >= 0) {
    text.append(static_cast<std::size_t>(number.exponent), '0');
  } else {
    const auto places = static_cast<std::size_t>(-number.exponent);
    if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
    text.insert(text.size() - places, 1, '.');
  }
  return (number.negative ? "-" : "") + text;
}

}  // namespace sluice::api
