#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

// 1234567 as "1,234,567".
[[nodiscard]] inline std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace sluice
