#include "gateway/proxy/split.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

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
  split.add(std::make_unique<Counting>(stable), "stable", 95);
  split.add(std::make_unique<Counting>(canary), "canary", 5);
  split.add(std::make_unique<Counting>(off), "off", 0);
  http::Exchange exchange;
  for (int i = 1; i <= 1000; ++i) {
    (void)split.handle(exchange).take();
    EXPECT_LE(std::abs(canary * 20 - i), 20) << "after " << i;
  }
  EXPECT_EQ(stable, 950);
  EXPECT_EQ(canary, 50);
  EXPECT_EQ(off, 0);
}

TEST(Split, EachValueBelongsToTheSameNameInAnyOrder) {
  const auto shares_of = [](bool reversed) {
    std::array<int, 2> counts{};
    Split split(HashKey::parse("header.X-User"));
    const auto add_stable = [&] { split.add(std::make_unique<Counting>(counts[0]), "stable", 3); };
    if (!reversed) add_stable();
    split.add(std::make_unique<Counting>(counts[1]), "canary", 1);
    if (reversed) add_stable();
    std::vector<int> chosen;
    for (int i = 0; i < 1000; ++i) {
      const std::string user = std::to_string(i);
      const std::array fields{http::Field{"x-user", user}};
      http::Exchange exchange;
      exchange.request.fields = fields;
      for (int again = 0; again < 2; ++again) {
        const int before = counts[0];
        (void)split.handle(exchange).take();
        chosen.push_back(counts[0] - before);
      }
      EXPECT_EQ(chosen[chosen.size() - 1], chosen[chosen.size() - 2]) << user;
    }
    return chosen;
  };
  const std::vector<int> chosen = shares_of(false);
  EXPECT_EQ(chosen, shares_of(true));
  EXPECT_NEAR(std::ranges::count(chosen, 1), 1500, 100);
}

}  // namespace
}  // namespace sluice::gateway
