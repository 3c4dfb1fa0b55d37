#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::app::suite {

// Texts of more lines are not compared line by line.
inline constexpr std::size_t most_diff_lines = 1000;

// Line by line: "-" only expected, "+" only there, " " in both; of long runs that agree, three lines around each
// difference. Empty where they are the same, or longer than most_diff_lines.
[[nodiscard]] std::string diff_lines(std::string_view expected, std::string_view got);

}  // namespace sluice::app::suite
