#include "core/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace sluice::core {
namespace {

class DescriptorLimit : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  static rlim_t soft() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit before_{};
};

TEST_F(DescriptorLimit, IsRaisedToTheHardLimit) {
  const rlimit low{.rlim_cur = 100, .rlim_max = before_.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(descriptors_for_clients(), 75);
  EXPECT_EQ(raise_descriptor_limit(), before_.rlim_max == RLIM_INFINITY ? UINT64_MAX : before_.rlim_max);
  EXPECT_EQ(soft(), before_.rlim_max);
}

TEST_F(DescriptorLimit, KeepsSomeForOthers) {
  const rlimit low{.rlim_cur = 1024, .rlim_max = before_.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(descriptors_for_clients(), 1024 - 256);
}

}  // namespace
}  // namespace sluice::core
