#include "sql/postgres/script.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "sql/postgres/cluster.h"
#include "sql/postgres/url.h"

namespace sluice::sql::postgres {
namespace {

using core::Task;

class PostgresScript : public testing::Test {
 protected:
  Result<void> run(std::string_view script, Duration patience = 20s) {
    std::optional<Result<void>> result;
    core::TaskGroup tasks;
    tasks.spawn([](core::Reactor& reactor, std::string_view text, Duration wait,
                   std::optional<Result<void>>& into) -> Task<void> {
      auto options = *options_from_url(Cluster::shared().url());
      into.emplace(co_await run_script(std::move(options), reactor, text, reactor.now() + wait));
    }(*reactor_, script, patience, result));
    while (!result) reactor_->turn(reactor_->now() + 10ms);
    return std::move(*result);
  }
  // "" after success; otherwise the position and the message.
  std::string said(std::string_view script) {
    const auto done = run(script);
    return done ? ""
                : std::to_string(done.error().position) + ": " + done.error().message + " " + done.error().sqlstate;
  }
  std::unique_ptr<core::Reactor> reactor_ = core::make_epoll_reactor();
};

TEST_F(PostgresScript, RunsAllStatements) {
  EXPECT_EQ(said("CREATE TABLE script_a (n int); INSERT INTO script_a VALUES (1), (2); SELECT * FROM script_a;"), "");
  EXPECT_EQ(Cluster::shared().psql("SELECT sum(n) FROM script_a"), "3\n");
  EXPECT_EQ(said(""), "");
  EXPECT_EQ(said("CREATE DATABASE script_made"), "");
  EXPECT_EQ(said("DROP DATABASE script_made WITH (FORCE)"), "");
  EXPECT_EQ(said("DROP TABLE script_a"), "");
}

TEST_F(PostgresScript, ErrorsHaveTheirPlaceAndUndoTheWhole) {
  EXPECT_EQ(said("SELECT 'ß';\nSELECT nothing"), "20: column \"nothing\" does not exist 42703");
  EXPECT_EQ(said("CREATE TABLE script_b (n int); SELECT 1; SELECT 1 / (n - n) FROM (VALUES (1)) v (n)"),
            "0: division by zero, in statement 3 22012");
  EXPECT_EQ(Cluster::shared().psql("SELECT to_regclass('script_b') IS NULL"), "t\n");
  EXPECT_TRUE(said("COPY pg_class FROM STDIN").starts_with("0: ")) << said("COPY pg_class FROM STDIN");
}

TEST_F(PostgresScript, IsGivenUpAtTheDeadline) {
  const auto done = run("SELECT pg_sleep(60)", 300ms);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().failure, Failure::timed_out);
}

}  // namespace
}  // namespace sluice::sql::postgres
