#include "http/patience.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TEST(Patience, IsRenewedByEnoughBytesOnly) {
  Patience patience(10s, 100);
  patience.spend(3s, 999);
  EXPECT_EQ(patience.left(), 7s);
  patience.spend(2s, 1);
  EXPECT_EQ(patience.left(), 10s);
  patience.spend(9s, 10);
  patience.spend(4s, 10);  // the last read was in time, and the next one is not
  EXPECT_EQ(patience.left(), 0s);
  patience.spend(0s, 980);
  EXPECT_EQ(patience.left(), 10s);
}

TEST(Patience, WithoutARateEveryByteRenewsIt) {
  Patience patience(10s, 0);
  patience.spend(9s, 1);
  EXPECT_EQ(patience.left(), 10s);
}

}  // namespace
}  // namespace sluice::http
