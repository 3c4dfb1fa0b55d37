#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The last lines of the log. May be used by all threads.
class LogTail {
 public:
  static constexpr std::size_t most_lines = 200;
  static constexpr std::size_t longest_line = 1000;  // bytes; the rest of a line is not kept

  void add(std::string_view line);
  struct Lines {
    std::uint64_t next = 0;  // the number of the next line
    std::vector<std::string> lines;
  };
  // The lines from this number on, as far as they are kept. The first line has the number 0.
  [[nodiscard]] Lines from(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::string, most_lines> lines_;
  std::uint64_t next_ = 0;
};

}  // namespace sluice
