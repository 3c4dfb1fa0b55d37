#include "gateway/basic/password.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/basic/credentials.h"

namespace sluice::gateway::basic {
namespace {

TEST(Password, IsHashedWithASalt) {
  const std::string hash = hash_password("correct horse");
  EXPECT_TRUE(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$")) << hash;
  EXPECT_EQ(check_hash(hash), "");
  EXPECT_NE(hash, hash_password("correct horse"));
  EXPECT_TRUE(verify_password(hash, "correct horse"));
  for (const std::string_view bad : {"", "correct hors", "correct horse ", "Correct horse"}) {
    EXPECT_FALSE(verify_password(hash, bad)) << bad;
  }
}

TEST(Password, HashesAreLookedAtBeforeTheyAreUsed) {
  const std::string rest = "$c29tZXNhbHQ$" + std::string(43, 'a');
  EXPECT_EQ(check_hash("$argon2id$v=19$m=65536,t=3,p=4" + rest), "");
  for (const std::string& bad : std::vector<std::string>{std::string(),
                                                         std::string("secret"),
                                                         "$argon2i$v=19$m=65536,t=3,p=4" + rest,
                                                         "$argon2id$v=16$m=65536,t=3,p=4" + rest,
                                                         "$argon2id$m=65536,t=3,p=4" + rest,
                                                         "$argon2id$v=19$m=65536,t=3,p=4",
                                                         "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ",
                                                         "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$",
                                                         "$argon2id$v=19$m=65536,t=3,p=4$$" + std::string(43, 'a'),
                                                         "$argon2id$v=19$m=,t=3,p=4" + rest,
                                                         "$argon2id$v=19$m=-1,t=3,p=4" + rest,
                                                         "$argon2id$v=19$t=3,m=65536,p=4" + rest,
                                                         "$argon2id$v=19$m=65536,t=3,p=4" + rest + "$",
                                                         "$argon2id$v=19$m=65536,t=3,p=4" + rest + "=",
                                                         "$argon2id$v=19$m=2000000,t=3,p=4" + rest,
                                                         "$argon2id$v=19$m=65536,t=65,p=4" + rest,
                                                         "$argon2id$v=19$m=65536,t=3,p=17" + rest,
                                                         "$argon2id$v=19$m=8,t=3,p=4" + rest,
                                                         "$argon2id$v=19$m=0,t=0,p=0" + rest,
                                                         "$2y$05$abcdefghijklmnopqrstuv",
                                                         "$argon2id$v=19$m=65536,t=3,p=4,x=1" + rest}) {
    EXPECT_NE(check_hash(bad), "") << bad;
  }
}

// Made by htpasswd, by `openssl passwd -apr1` and by crypt().
TEST(Password, HashesOfHtpasswdAreVerified) {
  const std::vector<std::pair<std::string, std::string>> known = {
      {"$apr1$abcdefgh$o7FjQbFYvzyBHRjMSK29o0", "hopper"},
      {"$apr1$x$oV58J0oiZBe/otSvMZeIO0", "ein l\u00e4ngeres Passwort mit mehr als sechzehn Bytes"},
      {"$apr1$zz$j2/RZcZLBHtY4Hv3/anFc1", ""},
      {"$2y$05$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3rW", "hopper"},
      {"$2b$05$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3rW", "hopper"}};
  for (const auto& [hash, password] : known) {
    EXPECT_EQ(check_hash(hash), "") << hash;
    EXPECT_TRUE(verify_password(hash, password)) << hash;
    for (const std::string& bad : {"Hopper" + password, password + " ", password + std::string(1, '\0')}) {
      EXPECT_FALSE(verify_password(hash, bad)) << hash;
    }
  }
  for (const std::string bad : {"$apr1$", "$apr1$$o7FjQbFYvzyBHRjMSK29o0", "$apr1$abcdefghi$o7FjQbFYvzyBHRjMSK29o0",
                                "$apr1$x$oV58J0oiZBe/otSvMZeIO", "$apr1$x$oV58J0oiZBe/otSvMZeIO:", "$2y$",
                                "$2y$05$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3r",
                                "$2y$15$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3rW",
                                "$2y$03$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3rW",
                                "$2x$05$abcdefghijklmnopqrstuuXyHETTCal2SqxVwK/sO1b3MCPwEk3rW",
                                "{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=", "$1$abcdefgh$o7FjQbFYvzyBHRjMSK29o0"}) {
    EXPECT_NE(check_hash(bad), "") << bad;
  }
}

TEST(Credentials, AreReadStrictly) {
  std::string decoded;
  const auto is = [&](std::string_view text, std::string_view user, std::string_view password) {
    const auto found = parse_credentials(text, decoded);
    return found && found->user == user && found->password == password;
  };
  EXPECT_TRUE(is("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"));  // RFC 7617, 2
  EXPECT_TRUE(is("bASIC  YTpiOmM=", "a", "b:c"));
  EXPECT_TRUE(is("Basic YTo=", "a", ""));
  EXPECT_TRUE(is("Basic dGVzdDoxMjPCow==", "test", "123\xc2\xa3"));
  for (const std::string_view bad : {"", "Basic", "Basic ", "Basic YTpiOmM", "Basic YTpiOmM= ", "Basic YTpiOmM==",
                                     "Basic YTpiOmN=", "Basic YT-iOmM=", "Basic OmI=", "Basic YWI=", "Basic YTpi\tYTpi",
                                     "Bearer YTpiOmM=", "BasicYTpiOmM=", "Basic YToA", "Basic YToK",
                                     "Basic =", "Basic ====", "Basic YTpiOmM=YTpiOmM="}) {
    EXPECT_FALSE(parse_credentials(bad, decoded)) << bad;
  }
}

}  // namespace
}  // namespace sluice::gateway::basic
