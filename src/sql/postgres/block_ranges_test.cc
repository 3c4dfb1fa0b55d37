#include "sql/postgres/block_ranges.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

TEST(BlockRanges, CoverTheTableWithoutGapOrOverlap) {
  for (const std::uint64_t blocks : {0U, 1U, 2U, 127U, 128U, 129U, 1000U, 1'000'001U}) {
    for (const std::uint32_t step : {1U, 7U, 128U}) {
      BlockRanges ranges(blocks, step, 0);
      const std::uint64_t count = ranges.left();
      EXPECT_EQ(count, std::max<std::uint64_t>((blocks + step - 1) / step, 1));
      std::uint32_t expected = 0;
      std::uint64_t seen = 0;
      while (const auto range = ranges.next()) {
        ASSERT_EQ(range->begin, expected);
        ++seen;
        ASSERT_EQ(range->end.has_value(), seen != count) << "only the last one is open";
        if (!range->end) break;
        ASSERT_GT(*range->end, range->begin);
        expected = *range->end;
      }
      EXPECT_EQ(seen, count);
      EXPECT_FALSE(ranges.next());
      EXPECT_LT(expected, std::max<std::uint64_t>(blocks, 1));
    }
  }
}

TEST(BlockRanges, OneForAShortTable) {
  BlockRanges ranges(511, 128, 512);
  ASSERT_EQ(ranges.left(), 1U);
  const auto all = ranges.next();
  EXPECT_EQ(all->from(), "(0,0)");
  EXPECT_EQ(all->to(), "(4294967295,65535)");
  EXPECT_EQ(BlockRanges(512, 128, 512).left(), 4U);
}

TEST(BlockRanges, OfTheLargestTable) {
  BlockRanges ranges(0xffff'ffff'ffffU, 8192, 512);
  EXPECT_EQ(ranges.left(), std::uint64_t{1} << 19);
  std::uint32_t last = 0;
  while (const auto range = ranges.next()) {
    ASSERT_GE(range->begin, last);
    last = range->begin;
  }
  EXPECT_EQ(last, 0xffff'e000U);
}

TEST(BlockRanges, AreWrittenAsTids) {
  BlockRanges ranges(300, 128, 0);
  const auto first = ranges.next();
  const auto second = ranges.next();
  EXPECT_EQ(first->from(), "(0,0)");
  EXPECT_EQ(first->to(), "(128,0)");
  EXPECT_EQ(second->from(), "(128,0)");
  EXPECT_EQ(second->to(), "(256,0)");
}

TEST(BlockRanges, NoneBeforeTheSizeIsKnown) { EXPECT_FALSE(BlockRanges().next()); }

}  // namespace
}  // namespace sluice::sql::postgres
