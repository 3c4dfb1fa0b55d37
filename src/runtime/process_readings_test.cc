#include "runtime/process_readings.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::runtime {
namespace {

TEST(ProcessReadings, BothWaysCountTheSameFiles) {
  const auto before = list_open_files();
  ASSERT_TRUE(before);
  const int more[] = {::dup(0), ::dup(0), ::dup(0)};
  EXPECT_EQ(list_open_files(), *before + 3);
  if (const auto counted = count_open_files()) {
    EXPECT_EQ(counted, *before + 3);
  }
  for (const int one : more) ::close(one);
  EXPECT_EQ(list_open_files(), before);
}

}  // namespace
}  // namespace sluice::runtime
