#include "app/config/digest.h"

#include <gtest/gtest.h>

namespace sluice::app::config {
namespace {

Source source_of(const std::string& secret = {}) {
  Source source("a.toml", "a");
  source.include("b.toml", "bc");
  if (!secret.empty()) source.add_secret(secret);
  return source;
}

TEST(Digest, IsThatOfTheFilesOneAfterTheOther) {
  EXPECT_EQ(digest_of(source_of()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, ChangesWithASecret) {
  const std::string one = digest_of(source_of("one"));
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(digest_of(source_of("one")), one) << "all servers with the same configuration have the same digest";
  EXPECT_NE(digest_of(source_of("two")), one);
  EXPECT_NE(digest_of(source_of()), one);
}

}  // namespace
}  // namespace sluice::app::config
