#include "base/log_tail.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(LogTail, KeepsTheLastLines) {
  LogTail tail;
  EXPECT_TRUE(tail.from(0).lines.empty());
  for (int i = 0; i < 3; ++i) tail.add(std::to_string(i));
  EXPECT_EQ(tail.from(0).lines, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(tail.from(2).lines, std::vector<std::string>{"2"});
  EXPECT_TRUE(tail.from(3).lines.empty());
  for (int i = 3; i < 1000; ++i) tail.add(std::to_string(i));
  const LogTail::Lines last = tail.from(1);
  EXPECT_EQ(last.next, 1000U);
  ASSERT_EQ(last.lines.size(), LogTail::most_lines);
  EXPECT_EQ(last.lines.front(), "800");
  EXPECT_EQ(last.lines.back(), "999");
}

TEST(LogTail, CutsLongLines) {
  LogTail tail;
  tail.add(std::string(5000, 'a'));
  EXPECT_EQ(tail.from(0).lines[0].size(), LogTail::longest_line);
}

}  // namespace
}  // namespace sluice
