#include "app/suite/diff.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

TEST(Diff, Lines) {
  EXPECT_EQ(diff_lines("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(diff_lines("a\nb\nc\n", "a\nx\nc\n"), " a\n-b\n+x\n c\n");
  EXPECT_EQ(diff_lines("", "a\n"), "+a\n");
  EXPECT_EQ(diff_lines("a\n", ""), "-a\n");
  EXPECT_EQ(diff_lines("a\nb\n", "b\nc\n"), "-a\n b\n+c\n");
}

TEST(Diff, LeavesOutWhatAgrees) {
  EXPECT_EQ(diff_lines("1\n2\n3\n4\n5\n6\nx\n", "1\n2\n3\n4\n5\n6\ny\n"), "...\n 4\n 5\n 6\n-x\n+y\n");
}

TEST(Diff, IsBounded) {
  std::string many;
  for (std::size_t i = 0; i <= most_diff_lines; ++i) many += "x\n";
  EXPECT_EQ(diff_lines(many, "x\n"), "");
}

}  // namespace
}  // namespace sluice::app::suite
