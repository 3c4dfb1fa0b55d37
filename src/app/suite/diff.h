#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::app::suite {

// Longer texts are not compared line by line.
inline constexpr std::size_t most_diff_lines = 1000;

// A diff by lines: "-" only in `expected`, "+" only in `got`, " " in both, with three lines of context. Empty if the
// texts are equal or longer than most_diff_lines.
[[nodiscard]] std::string diff_lines(std::string_view expected, std::string_view got);

}  // namespace sluice::app::suite
