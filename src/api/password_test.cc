#include "api/password.h"

#include <gtest/gtest.h>

#include "core/reactor.h"
#include "core/run_to_end.h"

namespace sluice::api {
namespace {

TEST(PasswordRules, LengthIsCountedInCharactersAndBoundInBytes) {
  const PasswordRules rules;
  EXPECT_EQ(rules.fault_of("gr8-pass"), "");
  EXPECT_EQ(rules.fault_of("gr8-pas"), "must have at least 8 characters");
  EXPECT_EQ(rules.fault_of(""), "must have at least 8 characters");
  EXPECT_EQ(rules.fault_of("äöüßéèñç"), "");
  EXPECT_EQ(rules.fault_of("äöüßéèñ"), "must have at least 8 characters");
  std::string longest(1024, 'x');
  longest[7] = 'y';
  EXPECT_EQ(rules.fault_of(longest), "");
  EXPECT_EQ(rules.fault_of(longest + "x"), "must have at most 1024 bytes");
  using namespace std::string_literals;
  EXPECT_EQ(rules.fault_of("gr8\0pass"s), "holds a NUL character");
}

TEST(PasswordRules, CommonOnesAreRefusedUnlessAllowed) {
  EXPECT_EQ(PasswordRules().fault_of("Password1"), "is a common password, which is easily guessed");
  EXPECT_EQ((PasswordRules{.min_length = 1, .allows_common = true}).fault_of("Password1"), "");
}

TEST(PasswordRules, AreThoseOfTheConfiguration) {
  ParamOptions options;
  EXPECT_EQ(password_rules(options), nullptr);
  options.hash = PasswordHash::argon2id;
  EXPECT_EQ(password_rules(options)->min_length, 8U);
  EXPECT_FALSE(password_rules(options)->allows_common);
  options.min_length = 12;
  options.common = true;
  EXPECT_EQ(password_rules(options)->min_length, 12U);
  EXPECT_TRUE(password_rules(options)->allows_common);
}

class Hasher final : public PasswordHasher {
 public:
  core::Task<std::optional<std::string>> hash(std::string_view, std::string password) override {
    if (left-- == 0) co_return std::nullopt;
    co_return "#" + password;
  }
  int left = 2;
};

TEST(Passwords, EachFieldIsHashedOnce) {
  Passwords passwords;
  EXPECT_EQ(passwords.hash_of("old", "a"), std::nullopt);
  EXPECT_EQ(passwords.hash_of("new", "b"), std::nullopt);
  EXPECT_EQ(passwords.hash_of("old", "a"), std::nullopt);
  const auto reactor = core::make_epoll_reactor();
  Hasher hasher;
  EXPECT_TRUE(core::run_to_end(*reactor, nullptr, passwords.hash_all(hasher, {})));
  EXPECT_TRUE(core::run_to_end(*reactor, nullptr, passwords.hash_all(hasher, {}))) << "nothing is left to hash";
  EXPECT_EQ(passwords.hash_of("old", "a"), "#a");
  EXPECT_EQ(passwords.hash_of("new", "b"), "#b");
}

TEST(Passwords, WithoutAPlaceInTheLineThereIsNoHash) {
  Passwords passwords;
  EXPECT_EQ(passwords.hash_of("password", "a"), std::nullopt);
  const auto reactor = core::make_epoll_reactor();
  Hasher hasher;
  hasher.left = 0;
  EXPECT_FALSE(core::run_to_end(*reactor, nullptr, passwords.hash_all(hasher, {})));
  EXPECT_EQ(passwords.hash_of("password", "a"), std::nullopt);
}

}  // namespace
}  // namespace sluice::api
