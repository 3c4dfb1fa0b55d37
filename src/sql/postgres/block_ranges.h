#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "sql/parallel.h"

namespace sluice::sql::postgres {

// Cuts a table of `blocks` blocks into ranges of `step` blocks and returns them in order. The first range begins at the
// start of the table and the last has no end, so together they cover the whole table even if it grows.
//
//   [0, step) [step, 2 step) ... [k step, end of the table)
class BlockRanges {
 public:
  struct Range {
    std::uint32_t begin = 0;
    std::optional<std::uint32_t> end;  // absent: to the end of the table

    // As PostgreSQL writes a tid. Row numbers within a block begin at 1, so no row has a range's limit as its tid.
    [[nodiscard]] std::string from() const { return "(" + std::to_string(begin) + ",0)"; }
    [[nodiscard]] std::string to() const { return end ? "(" + std::to_string(*end) + ",0)" : std::string(last_tid); }
  };

  BlockRanges() = default;
  // Makes a single range if the table has fewer than `least` blocks.
  BlockRanges(std::uint64_t blocks, std::uint32_t step, std::uint64_t least) {
    constexpr std::uint64_t most = 0xffffffffU;  // PostgreSQL's block numbers have 32 bits
    step_ = std::max<std::uint32_t>(step, 1);
    left_ = blocks < least ? 1 : std::max<std::uint64_t>((std::min(blocks, most) + step_ - 1) / step_, 1);
  }

  [[nodiscard]] std::uint64_t left() const { return left_; }
  [[nodiscard]] std::optional<Range> next() {
    if (left_ == 0) return std::nullopt;
    --left_;
    const std::uint32_t begin = next_;
    if (left_ == 0) return Range{begin, std::nullopt};
    next_ += step_;
    return Range{begin, next_};
  }

 private:
  std::uint32_t step_ = 1;
  std::uint32_t next_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace sluice::sql::postgres
