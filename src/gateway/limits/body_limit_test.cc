#include "gateway/limits/body_limit.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway::limits {
namespace {

class Body final : public http::BodyReader {
 public:
  core::Task<Result<std::string_view>> read() override { co_return std::string_view(); }
  void limit_to(std::uint64_t bytes) override { limits.push_back(bytes); }
  std::vector<std::uint64_t> limits;
};

TEST(BodyLimit, RefusesWhatIsAnnouncedAndBoundsTheRest) {
  BodyLimitPolicy policy({.size = ByteSize{100}});
  http::Exchange exchange;
  http::Slot slot;
  const auto ask = [&](std::vector<http::Field> fields) {
    exchange.request.fields = fields;
    const auto answer = policy.before(exchange, slot).take();
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(ask({}), 0);
  Body body;
  exchange.request.body = &body;
  EXPECT_EQ(ask({{"Content-Length", "100"}}), 0);
  EXPECT_EQ(ask({{"Transfer-Encoding", "chunked"}}), 0);
  EXPECT_EQ(body.limits, (std::vector<std::uint64_t>{100, 100}));
  EXPECT_EQ(ask({{"content-length", "101"}}), 413);
  EXPECT_EQ(ask({{"content-length", "99999999999999999999999999"}}), 413);
  EXPECT_EQ(body.limits.size(), 2u);
  EXPECT_EQ(policy.readings()[0].value, 2);
}

}  // namespace
}  // namespace sluice::gateway::limits
