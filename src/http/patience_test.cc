#include "http/patience.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TEST(Patience, IsGivenBackByBytes) {
  Patience patience(10s, 100);
  patience.spend(3s, 100);
  EXPECT_EQ(patience.left(), 8s);
  patience.spend(2s, 1);
  EXPECT_EQ(patience.left(), 6010ms);
  patience.spend(0s, 1'000'000'000'000);  // never more than the full time
  EXPECT_EQ(patience.left(), 10s);
  patience.spend(9s, 10);
  EXPECT_EQ(patience.left(), 1100ms);
  patience.spend(2s, 0);
  EXPECT_EQ(patience.left(), 0s);
}

TEST(Patience, WithoutARateEveryByteGivesAllOfItBack) {
  Patience patience(10s, 0);
  patience.spend(9s, 1);
  EXPECT_EQ(patience.left(), 10s);
  patience.spend(9s, 0);
  EXPECT_EQ(patience.left(), 1s);
}

}  // namespace
}  // namespace sluice::http
