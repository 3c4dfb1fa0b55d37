#include "runtime/admin_token.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

TEST(AdminToken, IsComparedWhole) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(has_admin_token("Bearer 0123456789abcdef", token));
  EXPECT_TRUE(has_admin_token("bearer 0123456789abcdef", token));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Bearer 0123456789abcde",
                            "Bearer 0123456789abcdef0", "Basic 0123456789abcdef", "0123456789abcdef"}) {
    EXPECT_FALSE(has_admin_token(wrong, token)) << wrong;
  }
}

TEST(AdminToken, IsLongAndFitsIntoAField) {
  EXPECT_EQ(check_admin_token("0123456789abcde="), "");
  for (const char* wrong : {"", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\n", "0123456789abcdef\""}) {
    EXPECT_NE(check_admin_token(wrong), "") << wrong;
  }
}

TEST(AdminToken, IsNeededBeyondTheLoopback) {
  for (const char* own : {"127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "unix:/run/a.sock"}) {
    EXPECT_FALSE(needs_admin_token(*core::Address::parse(own))) << own;
  }
  for (const char* open : {"*:1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fd00::1]:1"}) {
    EXPECT_TRUE(needs_admin_token(*core::Address::parse(open))) << open;
  }
}

}  // namespace
}  // namespace sluice::runtime
