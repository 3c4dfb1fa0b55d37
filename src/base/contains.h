#pragma once

#include <algorithm>
#include <functional>
#include <ranges>

namespace sluice {

// std::ranges::contains() of C++23, which libstdc++ 12 does not have.
template <std::ranges::input_range Range, class Value, class Projection = std::identity>
[[nodiscard]] constexpr bool contains(Range&& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

}  // namespace sluice
