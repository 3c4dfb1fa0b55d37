#include "base/log_tail.h"

#include <algorithm>

namespace sluice {

void LogTail::add(std::string_view line) {
  const std::lock_guard lock(mutex_);
  lines_[next_ % most_lines] = line.substr(0, longest_line);
  ++next_;
}

LogTail::Lines LogTail::from(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  Lines found{.next = next_, .lines = {}};
  for (number = std::max(number, next_ - std::min<std::uint64_t>(next_, most_lines)); number < next_; ++number) {
    found.lines.push_back(lines_[number % most_lines]);
  }
  return found;
}

}  // namespace sluice
