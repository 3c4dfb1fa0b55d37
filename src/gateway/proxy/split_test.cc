#include "gateway/proxy/split.h"

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

struct Counting final : http::Handler {
  explicit Counting(int& count) : count(count) {}
  core::Async<http::Response> handle(http::Exchange&) override {
    ++count;
    return http::Response{};
  }
  int& count;
};

TEST(Split, EachGetsExactlyItsShareSpreadEvenly) {
  int stable = 0;
  int canary = 0;
  int off = 0;
  Split split;
  split.add(std::make_unique<Counting>(stable), 95);
  split.add(std::make_unique<Counting>(canary), 5);
  split.add(std::make_unique<Counting>(off), 0);
  http::Exchange exchange;
  for (int i = 1; i <= 1000; ++i) {
    (void)split.handle(exchange).take();
    EXPECT_LE(std::abs(canary * 20 - i), 20) << "after " << i;
  }
  EXPECT_EQ(stable, 950);
  EXPECT_EQ(canary, 50);
  EXPECT_EQ(off, 0);
}

}  // namespace
}  // namespace sluice::gateway
