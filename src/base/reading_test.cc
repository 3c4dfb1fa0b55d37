#include "base/reading.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Reading, LabelsAreEscaped) { EXPECT_EQ(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\""); }

TEST(Reading, AppendedOnesHaveOneLabelMore) {
  Readings all;
  append(all, {counter("a", "A", 1)});
  append(all, {counter("a", "A", 2), gauge("b", "B", 0.5, label("reason", "type"))}, label("store", "pictures"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].labels, "");
  EXPECT_EQ(all[1].labels, R"(store="pictures")");
  EXPECT_EQ(all[2].labels, R"(store="pictures",reason="type")");
  EXPECT_EQ(all[2].value, 0.5);
  EXPECT_EQ(all[2].kind, Reading::Kind::gauge);
}

}  // namespace
}  // namespace sluice
