#include "login/tries.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "login/tables.h"
#include "sql/sqlite/database.h"
#include "sql/sqlite/test_support.h"
#include "sql/sqlite/writer.h"

namespace sluice::login {
namespace {

class TriesTest : public testing::Test {
 protected:
  TriesTest() : file_(tables()) {
    writer_ = std::move(*sql::SqliteWriter::open(file_.options));
    auto opened = sql::SqliteDatabase::open(file_.options, *loop_.reactor, loop_.mailbox, loop_.threads, writer_.get());
    EXPECT_TRUE(opened) << opened.error().message;
    databases_.set({{"main", std::move(*opened)}});
    tries_.emplace(databases_.at("main"), Tries::Options{});
  }
  static std::string tables() {
    std::string script;
    for (const std::string& statement : statements_of_tables("refresh_tokens", "login_tries"))
      script += statement + ";\n";
    return script;
  }
  // How long the client has to wait.
  Duration begin(std::string account, std::string network, std::int64_t now_ms) {
    const auto begun =
        loop_.run(tries_->begin({.account = std::move(account), .network = std::move(network), .now_ms = now_ms}));
    EXPECT_TRUE(begun) << begun.error().message;
    return begun.value_or(1h);
  }

  sql::sqlite::testing::TempFile file_;
  std::unique_ptr<sql::SqliteWriter> writer_;
  sql::sqlite::testing::Loop loop_;
  services::Databases databases_{*loop_.reactor};
  std::optional<Tries> tries_;
};

TEST_F(TriesTest, TheDelayDoubles) {
  std::int64_t now_ms = 1'000'000;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(begin("ada", "net", now_ms), Duration{}) << i;
  EXPECT_EQ(begin("ada", "net", now_ms), Duration{}) << "this one sets the first delay";
  for (const Duration delay : {1s, 2s, 4s, 8s, 16s, 32s}) {
    EXPECT_EQ(begin("ada", "net", now_ms), delay);
    now_ms += std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
    EXPECT_EQ(begin("ada", "net", now_ms), Duration{});
  }
  for (int i = 0; i < 40; ++i) {
    now_ms += 900'000;
    EXPECT_EQ(begin("ada", "net", now_ms), Duration{});
  }
  EXPECT_EQ(begin("ada", "net", now_ms), 15min);
}

TEST_F(TriesTest, OthersAreNotHeldUp) {
  for (int i = 0; i < 10; ++i) (void)begin("ada", "net", 1000);
  EXPECT_GT(begin("ada", "net", 1000), Duration{});
  EXPECT_EQ(begin("bob", "net", 1000), Duration{});
  EXPECT_EQ(begin("ada", "elsewhere", 1000), Duration{}) << "her own network";
}

TEST_F(TriesTest, ANetworkThatTriesManyAccounts) {
  int allowed = 0;
  for (int i = 0; i < 1000; ++i) allowed += begin("user" + std::to_string(i), "net", 1000) == Duration{} ? 1 : 0;
  EXPECT_EQ(allowed, 51);
  EXPECT_EQ(begin("ada", "elsewhere", 1000), Duration{});
}

TEST_F(TriesTest, SuccessIsForgiving) {
  for (int i = 0; i < 4; ++i) (void)begin("ada", "net", 1000);
  EXPECT_GT(begin("ada", "net", 1000), Duration{});
  EXPECT_TRUE(loop_.run(tries_->succeeded({.account = "ada", .network = "net", .now_ms = 1000})));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(begin("ada", "net", 1000), Duration{}) << i;
}

TEST_F(TriesTest, AnAccountThatIsGuessedFromEverywhere) {
  EXPECT_TRUE(loop_.run(tries_->succeeded({.account = "ada", .network = "home", .now_ms = 1000})));
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += begin("ada", "net" + std::to_string(i), 1000) == Duration{} ? 1 : 0;
  EXPECT_EQ(allowed, 21);
  EXPECT_GT(begin("ada", "elsewhere", 1000), Duration{});
  EXPECT_EQ(begin("ada", "home", 1000), Duration{}) << "her own network";
  EXPECT_EQ(begin("bob", "home", 1000), Duration{});
  EXPECT_EQ(loop_.run(tries_->prune(1000 + 2 * 24 * 3600 * 1000)), 47u);
  EXPECT_EQ(loop_.run(tries_->prune(1000 + 31LL * 24 * 3600 * 1000)), 1u) << "it is remembered for 30 days";
}

TEST_F(TriesTest, AClockThatIsSetBackHoldsNobodyUp) {
  constexpr std::int64_t now_ms = 10'000'000;
  for (int i = 0; i < 10; ++i) (void)begin("ada", "net", now_ms);
  EXPECT_GT(begin("ada", "net", now_ms - 1000), Duration{}) << "another node";
  EXPECT_EQ(begin("ada", "net", now_ms - 3'600'000), Duration{});
}

TEST_F(TriesTest, OldTriesAreRemoved) {
  (void)begin("ada", "net", 1000);
  EXPECT_EQ(loop_.run(tries_->prune(1000)), 0u);
  EXPECT_EQ(loop_.run(tries_->prune(1000 + 24 * 3600 * 1000)), 3u);
}

}  // namespace
}  // namespace sluice::login
