#include "sql/postgres/database.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sql/postgres/cluster.h"
#include "sql/postgres/url.h"

namespace sluice::sql::postgres {
namespace {

using core::Task;

// What a test reads of a result.
struct Rows {
  std::vector<std::vector<std::optional<std::string>>> rows;
  std::size_t blocks = 0;
  std::optional<Error> error;
};

class PostgresTest : public testing::Test {
 public:
  static Options options() {
    auto made = options_from_url(Cluster::shared().url());
    EXPECT_TRUE(made) << made.error();
    return *made;
  }
  void open(Options chosen = options()) {
    database.reset();
    database = std::make_unique<Database>(*reactor, std::move(chosen));
  }
  void SetUp() override {
    Cluster::shared();
    reactor->turn(reactor->now());  // what has started above took its time
    open();
  }
  void TearDown() override {
    tasks.cancel();
    database.reset();
  }

  // Runs the loop until all spawned tasks are done.
  void settle(Duration patience = 20s) {
    const Instant end = reactor->now() + patience;
    while (!tasks.empty() && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    ASSERT_TRUE(tasks.empty()) << "the loop did not finish";
  }
  void run(Task<void> task, Duration patience = 20s) {
    tasks.spawn(std::move(task));
    settle(patience);
  }
  void turn_for(Duration time) {
    const Instant end = reactor->now() + time;
    while (reactor->now() < end) reactor->turn(end);
  }
  // Until `condition`, which may be looked at again and again.
  bool turn_until(const std::function<bool()>& condition, Duration patience = 10s) {
    const Instant end = reactor->now() + patience;
    while (!condition()) {
      if (reactor->now() >= end) return false;
      reactor->turn(reactor->now() + 5ms);
    }
    return true;
  }

  Result<Statement> prepare(std::string text, std::uint32_t id = 0, std::vector<Parameter> declared = {}) {
    std::optional<Result<Statement>> result;
    run([](Database& db, std::string sql, std::uint32_t number, std::vector<Parameter> parameters,
           std::optional<Result<Statement>>& into) -> Task<void> {
      into = co_await db.prepare(sql, number, parameters);
    }(*database, std::move(text), id, std::move(declared), result));
    return std::move(*result);
  }
  Statement must_prepare(std::string text, std::uint32_t id = 0, bool one_row = false) {
    auto prepared = prepare(std::move(text), id);
    EXPECT_TRUE(prepared) << prepared.error().message;
    if (!prepared) return {};
    prepared->one_row = one_row;
    return std::move(*prepared);
  }

  static Task<void> collect(sql::Database& db, const Statement& statement, std::vector<std::optional<std::string>> values,
                            Rows& into, QueryOptions query_options = {}) {
    std::vector<Argument> arguments;
    for (const auto& value : values) {
      arguments.push_back({value ? std::optional<std::string_view>(*value) : std::nullopt, ParameterType::text});
    }
    auto cursor = co_await db.query(statement, arguments, query_options);
    if (!cursor) {
      into.error = cursor.error();
      co_return;
    }
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) {
        into.error = block.error();
        co_return;
      }
      ++into.blocks;
      for (std::size_t i = 0; i < block->rows; ++i) {
        auto& row = into.rows.emplace_back();
        for (const Field& field : block->row(i)) {
          row.push_back(field.is_null() ? std::nullopt : std::optional(std::string(field.view())));
        }
      }
      if (block->last) co_return;
    }
  }
  Rows fetch(const Statement& statement, std::vector<std::optional<std::string>> values = {}, QueryOptions o = {}) {
    Rows rows;
    run(collect(*database, statement, std::move(values), rows, o));
    return rows;
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::unique_ptr<Database> database;
  core::TaskGroup tasks;
};

using Row = std::vector<std::optional<std::string>>;

TEST_F(PostgresTest, StreamsAQuery) {
  const Statement statement = must_prepare("SELECT n, n::text || 'x' AS t, NULL::int FROM generate_series(1, :n::int) n");
  ASSERT_EQ(statement.columns.size(), 3u);
  EXPECT_EQ(statement.columns[0].name, "n");
  EXPECT_EQ(statement.columns[0].type->form, Form::number);
  EXPECT_EQ(statement.columns[1].type->form, Form::text);
  ASSERT_EQ(statement.parameters.size(), 1u);
  EXPECT_EQ(statement.parameters[0].name, "n");
  const Rows rows = fetch(statement, {"100000"});
  ASSERT_FALSE(rows.error) << rows.error->message;
  ASSERT_EQ(rows.rows.size(), 100000u);
  EXPECT_GT(rows.blocks, 10u);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    ASSERT_EQ(rows.rows[i], (Row{std::to_string(i + 1), std::to_string(i + 1) + "x", std::nullopt}));
  }
}

}  // namespace
}  // namespace sluice::sql::postgres
