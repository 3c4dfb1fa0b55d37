#include "login/families.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "login/tables.h"
#include "sql/sqlite/database.h"
#include "sql/sqlite/test_support.h"
#include "sql/sqlite/writer.h"

namespace sluice::login {
namespace {

class FamiliesTest : public testing::Test {
 protected:
  FamiliesTest() : file_(tables()) {
    writer_ = std::move(*sql::SqliteWriter::open(file_.options));
    auto opened = sql::SqliteDatabase::open(file_.options, *loop_.reactor, loop_.mailbox, loop_.threads, writer_.get());
    EXPECT_TRUE(opened) << opened.error().message;
    databases_.set({{"main", std::move(*opened)}});
    families_.emplace(databases_.at("main"), Families::Options{});
  }
  static std::string tables() {
    std::string script;
    for (const std::string& statement : statements_of_tables("refresh_tokens", "login_tries"))
      script += statement + ";\n";
    return script;
  }
  RefreshToken begin(std::string subject = "ada", std::int64_t now_s = 1000) {
    auto begun = loop_.run(families_->begin({.subject = std::move(subject), .parameters = "{}"}, now_s));
    EXPECT_TRUE(begun) << begun.error().message;
    return *begun;
  }
  // Presents the token.
  std::expected<Families::Found, Families::Refusal> rotate(const RefreshToken& token, std::int64_t now_s) {
    auto found = loop_.run(families_->find(token, now_s));
    EXPECT_TRUE(found) << found.error().message;
    if (*found) EXPECT_EQ(loop_.run(families_->rotate(**found, now_s)), true);
    return std::move(*found);
  }

  // Nothing: the token is accepted.
  std::optional<Families::Refusal> refusal(const RefreshToken& token, std::int64_t now_s) {
    const auto rotated = rotate(token, now_s);
    return rotated ? std::nullopt : std::optional(rotated.error());
  }

  sql::sqlite::testing::TempFile file_;
  std::unique_ptr<sql::SqliteWriter> writer_;
  sql::sqlite::testing::Loop loop_;
  services::Databases databases_{*loop_.reactor};
  std::optional<Families> families_;
};

TEST(RefreshToken, IsReadAsItIsWritten) {
  const std::string half(43, 'a');
  const auto token = RefreshToken::parse(half + "." + half);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->text(), half + "." + half);
  for (const std::string& wrong : {std::string(), half, half + ".", "." + half, half + "." + half + "a",
                                   half + "." + half + ".", half + "." + std::string(43, '='), "a." + half}) {
    EXPECT_FALSE(RefreshToken::parse(wrong)) << wrong;
  }
}

TEST_F(FamiliesTest, EachTokenIsUsedOnce) {
  RefreshToken token = begin();
  EXPECT_TRUE(RefreshToken::parse(token.text()));
  for (int i = 1; i < 5; ++i) {
    const auto rotated = rotate(token, 1000 + 100 * i);
    ASSERT_TRUE(rotated);
    EXPECT_EQ(rotated->user.subject, "ada");
    EXPECT_EQ(rotated->next.family, token.family);
    EXPECT_NE(rotated->next.secret, token.secret);
    token = rotated->next;
  }
}

TEST_F(FamiliesTest, AnAnswerThatWasLostComesAgain) {
  const RefreshToken first = begin();
  const auto second = rotate(first, 2000);
  const auto again = rotate(first, 2010);
  ASSERT_TRUE(second && again);
  EXPECT_EQ(again->next.secret, second->next.secret);
  EXPECT_EQ(rotate(second->next, 2010)->next.secret, second->next.secret) << "it changes once within the grace";
  EXPECT_NE(rotate(second->next, 2011)->next.secret, second->next.secret);
}

TEST_F(FamiliesTest, TheTableAloneMakesNoToken) {
  const RefreshToken first = begin();
  const auto second = rotate(first, 2000);
  families_.emplace(databases_.at("main"), Families::Options{.pepper = "another key"});
  EXPECT_EQ(refusal(first, 2001), Families::Refusal::unknown) << "its successor was made with the other key";
  const auto third = rotate(second->next, 2020);
  ASSERT_TRUE(third) << "and nothing has ended";
  EXPECT_EQ(refusal(first, 2021), Families::Refusal::reused);
}

TEST_F(FamiliesTest, AClockThatIsSetBackProlongsNoGrace) {
  const RefreshToken first = begin();
  EXPECT_TRUE(rotate(first, 9000));
  EXPECT_TRUE(rotate(first, 8995)) << "another node";
  EXPECT_EQ(refusal(first, 5000), Families::Refusal::reused);
}

TEST_F(FamiliesTest, AStolenTokenEndsItsFamily) {
  const RefreshToken first = begin();
  const RefreshToken other = begin();
  const auto second = rotate(first, 2000);
  ASSERT_TRUE(second);
  EXPECT_EQ(refusal(first, 2011), Families::Refusal::reused);
  EXPECT_EQ(refusal(second->next, 2012), Families::Refusal::unknown);
  EXPECT_TRUE(rotate(other, 2012)) << "another log-in of the same user";
}

TEST_F(FamiliesTest, AGuessEndsAFamilyToo) {
  const RefreshToken token = begin();
  EXPECT_EQ(refusal({.family = token.family, .secret = std::string(43, 'a')}, 1001), Families::Refusal::reused);
  EXPECT_EQ(refusal({.family = std::string(43, 'a'), .secret = token.secret}, 1001), Families::Refusal::unknown);
}

TEST_F(FamiliesTest, AFamilyExpires) {
  const RefreshToken token = begin("ada", 1000);
  const std::int64_t end_s = 1000 + 30 * 24 * 3600;
  const auto late = rotate(token, end_s - 1);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->expires_s, end_s) << "its use does not prolong it";
  EXPECT_EQ(refusal(late->next, end_s), Families::Refusal::expired);
  EXPECT_EQ(loop_.run(families_->prune(end_s - 1)), 0u);
  EXPECT_EQ(loop_.run(families_->prune(end_s)), 1u);
}

TEST_F(FamiliesTest, ALogOut) {
  const RefreshToken token = begin();
  const RefreshToken elsewhere = begin();
  const RefreshToken of_bob = begin("bob");
  EXPECT_EQ(*loop_.run(families_->end({.family = token.family, .secret = std::string(43, 'a')}, 1001)), std::nullopt);
  EXPECT_EQ(*loop_.run(families_->end(token, 1001)), "ada");
  EXPECT_EQ(*loop_.run(families_->end(token, 1001)), std::nullopt);
  EXPECT_EQ(refusal(token, 1001), Families::Refusal::unknown);
  EXPECT_TRUE(rotate(elsewhere, 1001));
  EXPECT_EQ(loop_.run(families_->end_all("ada", 1005)), std::vector{session_of(elsewhere.family)});
  EXPECT_TRUE(rotate(of_bob, 1001));

  const auto ended = loop_.run(families_->ended_since(1005));
  ASSERT_EQ(ended->size(), 1u);
  EXPECT_EQ(ended->front().session, session_of(elsewhere.family));
  EXPECT_EQ(ended->front().at_s, 1005);
  EXPECT_EQ(loop_.run(families_->ended_since(1001))->size(), 2u);
  EXPECT_EQ(loop_.run(families_->prune(1001 + 24 * 3600)), 1u) << "ended rows are kept for a day";
}

TEST_F(FamiliesTest, TwoRequestsWithTheSameToken) {
  const RefreshToken token = begin();
  const auto one = loop_.run(families_->find(token, 1001));
  const auto other = loop_.run(families_->find(token, 1001));
  EXPECT_EQ(loop_.run(families_->rotate(**one, 1001)), true);
  EXPECT_EQ(loop_.run(families_->rotate(**other, 1001)), false) << "it has to look again";
  EXPECT_EQ(rotate(token, 1002)->next.secret, (*one)->next.secret);
}

}  // namespace
}  // namespace sluice::login
