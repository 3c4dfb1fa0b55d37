#include "sql/postgres/parallel_cursor.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/postgres/writing_fixture.h"

namespace sluice::sql::postgres {
namespace {

using core::Task;

constexpr int row_count = 20'000;

// A table of some 190 blocks, read in ranges of four.
class PostgresParallel : public testing::PostgresWriting {
 public:
  struct Answer {
    std::vector<std::string> rows;
    std::size_t blocks = 0;
    const Column* columns = nullptr;
    std::optional<Error> error;
    bool done = false;
  };

  static Options small_ranges(std::size_t pool_size = 6) {
    Options chosen = options(pool_size);
    chosen.range_blocks = 4;
    chosen.range_least_blocks = 8;
    return chosen;
  }
  void SetUp() override {
    PostgresWriting::SetUp();
    fill();
    open(small_ranges());
  }
  static void fill() {
    psql(
        "SET client_min_messages = warning; DROP TABLE IF EXISTS wide CASCADE; CREATE TABLE wide (n int PRIMARY KEY, "
        "text text NOT NULL);"
        "INSERT INTO wide SELECT n, 'row ' || n || repeat('x', n % 90) FROM generate_series(1, " +
        std::to_string(row_count) +
        ") n;"
        "ANALYZE wide");
  }

  static constexpr std::string_view all = "SELECT n, text FROM wide WHERE ctid >= :ctid_from AND ctid < :ctid_to";

  Result<Statement> try_parallel(std::string_view text, ParallelReading reading) {
    return run(database->prepare_parallel(text, {}, reading));
  }
  Statement parallel(std::string_view text = all, ParallelReading reading = {.connections = 4}) {
    auto made = try_parallel(text, reading);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : Statement{};
  }
  // `between` runs after each block.
  Task<void> read(const Statement& statement, Answer& into, std::vector<Setting> settings = {},
                  std::function<void(std::size_t)> between = {}) {
    std::vector<Argument> arguments(statement.parameters.size());
    auto cursor = co_await database->query(statement, arguments, {.settings = settings});
    settings.clear();
    if (!cursor) {
      into.error = cursor.error();
      into.done = true;
      co_return;
    }
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) {
        into.error = block.error();
        break;
      }
      ++into.blocks;
      if (into.columns == nullptr) into.columns = block->columns.data();
      EXPECT_EQ(into.columns, block->columns.data());
      for (std::size_t i = 0; i < block->rows; ++i) {
        std::string& row = into.rows.emplace_back();
        for (const Field& field : block->row(i)) row += std::string(field.view()) + "|";
      }
      if (block->last) break;
      if (between) between(into.blocks);
    }
    into.done = true;
  }
  Answer answer(const Statement& statement, std::vector<Setting> settings = {},
                std::function<void(std::size_t)> between = {}) {
    Answer result;
    tasks.spawn(read(statement, result, std::move(settings), std::move(between)));
    settle();
    EXPECT_TRUE(comes_to_rest());  // psql() does not turn the loop, and would wait for our locks forever
    return result;
  }
  static std::vector<std::string> expected(const std::string& where = "") {
    std::vector<std::string> rows;
    std::string out = psql("SELECT n || '|' || text || '|' FROM wide " + where + " ORDER BY ctid") + "\n";
    for (std::size_t at = 0; at < out.size() && out != "\n";) {
      const std::size_t end = out.find('\n', at);
      rows.push_back(out.substr(at, end - at));
      at = end + 1;
    }
    return rows;
  }
  static std::vector<std::string> sorted(std::vector<std::string> rows) {
    std::ranges::sort(rows);
    return rows;
  }
};

TEST_F(PostgresParallel, GivesTheTableInOrderAndOutOfIt) {
  const auto wanted = expected();
  ASSERT_EQ(wanted.size(), static_cast<std::size_t>(row_count));
  for (const bool named : {true, false}) {
    Options chosen = small_ranges();
    chosen.prepared = named;
    open(chosen);
    for (const std::uint32_t connections : {1U, 2U, 4U}) {
      const Statement ordered = parallel(all, {.connections = connections});
      const Statement unordered = parallel(all, {.connections = connections, .ordered = false});
      for (int i = 0; i < 2; ++i) {  // the second time with cached plans
        const Answer in_order = answer(ordered);
        ASSERT_FALSE(in_order.error) << in_order.error->message;
        EXPECT_TRUE(in_order.rows == wanted) << in_order.rows.size();
        const Answer any_order = answer(unordered);
        ASSERT_FALSE(any_order.error) << any_order.error->message;
        EXPECT_TRUE(sorted(any_order.rows) == sorted(wanted)) << any_order.rows.size();
      }
    }
    EXPECT_GE(database->counters().parallel_helpers, 1U);
    EXPECT_EQ(database->counters().lost, 0U);
  }
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresParallel, IsOneSnapshotWhateverOthersWrite) {
  const auto wanted = expected();
  for (const bool ordered : {true, false}) {
    fill();
    const Statement s = parallel(all, {.connections = 4, .ordered = ordered});
    const Answer got = answer(s, {}, [](std::size_t block) {
      if (block > 6) return;
      const std::string step = std::to_string(block);
      psql("UPDATE wide SET text = 'changed' WHERE n % 7 = " + step + "; DELETE FROM wide WHERE n % 11 = " + step +
           "; INSERT INTO wide SELECT 1000000 * " + step + " + n, 'new' FROM generate_series(1, 2000) n");
      psql("VACUUM wide");
    });
    ASSERT_FALSE(got.error) << got.error->message;
    EXPECT_GT(got.blocks, 6U);
    EXPECT_TRUE((ordered ? got.rows : sorted(got.rows)) == (ordered ? wanted : sorted(wanted))) << got.rows.size();
    EXPECT_NE(expected(), wanted);
  }
}

// VACUUM FULL and the like would move rows to other blocks. They must wait, even before all connections have started.
TEST_F(PostgresParallel, KeepsTheTableFromBeingRewritten) {
  const auto wanted = expected();
  bool refused = false;
  const Answer got = answer(parallel(), {}, [&](std::size_t block) {
    if (block != 1) return;
    try {
      psql("SET lock_timeout = '20ms'; LOCK TABLE wide IN ACCESS EXCLUSIVE MODE");  // like VACUUM FULL
    } catch (const std::exception&) {
      refused = true;
    }
  });
  EXPECT_TRUE(refused);
  EXPECT_TRUE(got.rows == wanted) << got.rows.size();
  EXPECT_TRUE(comes_to_rest());
  psql("VACUUM FULL wide");
}

TEST_F(PostgresParallel, RequestsThatCompeteRunWithFewerConnections) {
  const auto wanted = expected();
  for (const std::size_t pool_size : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    open(small_ranges(pool_size));
    const Statement ordered = parallel(all, {.connections = 4});
    const Statement unordered = parallel(all, {.connections = 4, .ordered = false});
    Answer answers[8];
    for (std::size_t i = 0; i < 8; ++i) tasks.spawn(read(i % 2 == 0 ? ordered : unordered, answers[i]));
    settle();
    for (std::size_t i = 0; i < 8; ++i) {
      ASSERT_FALSE(answers[i].error) << answers[i].error->message;
      EXPECT_TRUE((i % 2 == 0 ? answers[i].rows : sorted(answers[i].rows)) == (i % 2 == 0 ? wanted : sorted(wanted)));
    }
    EXPECT_EQ(database->counters().unavailable, 0U);
  }
}

TEST_F(PostgresParallel, LeavesItsConnectionsClean) {
  open(small_ranges(4));
  const Statement s = parallel(
      "SELECT n, text, repeat('y', 2000) FROM wide WHERE ctid >= :ctid_from AND ctid < :ctid_to", {.connections = 3});
  for (const std::size_t blocks : {0U, 1U, 20U}) {
    std::unique_ptr<Cursor> cursor;
    tasks.spawn(
        [](Database& db, const Statement& statement, std::size_t count, std::unique_ptr<Cursor>& into) -> Task<void> {
          const std::vector<Argument> arguments(2);
          auto made = co_await db.query(statement, arguments, {});
          EXPECT_TRUE(made);
          if (made) into = std::move(*made);
          for (std::size_t i = 0; i < count && into; ++i) {
            const auto block = co_await into->next();
            EXPECT_TRUE(block);
          }
        }(*database, s, blocks, cursor));
    settle();
    cursor.reset();
    EXPECT_TRUE(comes_to_rest());
  }
  EXPECT_EQ(database->counters().lost, 0U);
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresParallel, ARangeThatFailsEndsTheAnswer) {
  for (const bool ordered : {true, false}) {
    const Statement s = parallel("SELECT n, 1 / (n - 15000) FROM wide WHERE ctid >= :ctid_from AND ctid < :ctid_to",
                                 {.connections = 3, .ordered = ordered});
    const Answer got = answer(s);
    ASSERT_TRUE(got.error);
    EXPECT_EQ(got.error->sqlstate, "22012");
    EXPECT_LT(got.rows.size(), static_cast<std::size_t>(row_count));
    if (ordered) EXPECT_EQ(got.rows.at(0), "1|0|");
    EXPECT_TRUE(comes_to_rest());
  }
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresParallel, TakesParametersAndFilters) {
  const Statement s =
      parallel("SELECT n, text FROM wide w WHERE n % :m::int = 0 AND w.ctid < :ctid_to AND w.ctid >= :ctid_from");
  ASSERT_EQ(s.parallel->from, 2U);
  ASSERT_EQ(s.parallel->to, 1U);
  EXPECT_EQ(s.parallel->table, "wide");
  std::vector<Argument> arguments(3);
  arguments[0].text = "10";
  arguments[1].text = "(0,0)";  // ignored
  Answer got;
  tasks.spawn([](Database& db, const Statement& statement, std::vector<Argument> values, Answer& into) -> Task<void> {
    auto cursor = co_await db.query(statement, values, {});
    EXPECT_TRUE(cursor);
    for (;;) {
      const auto block = co_await (*cursor)->next();
      EXPECT_TRUE(block);
      for (std::size_t i = 0; i < block->rows; ++i) into.rows.push_back(std::string(block->row(i)[0].view()));
      if (block->last) break;
    }
  }(*database, s, arguments, got));
  settle();
  EXPECT_EQ(got.rows.size(), static_cast<std::size_t>(row_count / 10));
}

TEST_F(PostgresParallel, ASmallTableIsReadByOne) {
  psql("DELETE FROM wide WHERE n > 100");
  psql("VACUUM FULL wide");
  const Answer got = answer(parallel());
  ASSERT_FALSE(got.error);
  EXPECT_EQ(got.rows, expected());
  EXPECT_EQ(database->counters().parallel_requests, 1U);
  EXPECT_EQ(database->counters().parallel_helpers, 0U);
  psql("TRUNCATE wide");
  const Answer none = answer(parallel(all, {.connections = 4}));
  ASSERT_FALSE(none.error);
  EXPECT_TRUE(none.rows.empty());
}

TEST_F(PostgresParallel, FollowsChangesOfTheTable) {
  const Statement s = parallel("SELECT * FROM wide WHERE ctid >= :ctid_from AND ctid < :ctid_to");
  EXPECT_TRUE(answer(s).rows == expected());
  psql("CREATE TYPE mood_of_rows AS ENUM ('sad', 'ok'); ALTER TABLE wide ADD COLUMN mood mood_of_rows DEFAULT 'ok'");
  const Answer more = answer(s);
  ASSERT_FALSE(more.error) << more.error->message;
  ASSERT_EQ(more.rows.size(), static_cast<std::size_t>(row_count));
  EXPECT_EQ(more.rows.at(2), "3|row 3xxx|ok|");
  psql("DROP TABLE wide; DROP TYPE mood_of_rows");
  const Answer gone = answer(s);
  ASSERT_TRUE(gone.error);
  EXPECT_EQ(gone.error->sqlstate, "42P01");
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresParallel, EachConnectionHasTheRole) {
  psql(
      "SET client_min_messages = warning; DROP ROLE IF EXISTS part_reader, part_login;"
      "CREATE ROLE part_reader; CREATE ROLE part_login LOGIN NOINHERIT; GRANT part_reader TO part_login;"
      "GRANT SELECT ON wide TO part_reader; ALTER TABLE wide ENABLE ROW LEVEL SECURITY;"
      "CREATE POLICY part ON wide TO part_reader USING (n % 3 = (current_setting('request.jwt.claims')::json ->> "
      "'part')::int)");
  Options chosen = small_ranges();
  chosen.user = "part_login";
  open(chosen);
  const Statement s =
      parallel("SELECT n, text FROM wide WHERE ctid >= :ctid_from AND ctid < :ctid_to", {.connections = 4});
  for (int i = 0; i < 6; ++i) {
    const std::string part = std::to_string(i % 3);
    const Answer got = answer(s, {{"role", "part_reader"}, {"request.jwt.claims", R"({"part":)" + part + "}"}});
    ASSERT_FALSE(got.error) << got.error->message;
    EXPECT_TRUE(got.rows == expected("WHERE n % 3 = " + part)) << got.rows.size();
  }
  EXPECT_GE(database->counters().parallel_helpers, 1U);
  const Answer login = answer(s);
  ASSERT_TRUE(login.error);
  EXPECT_EQ(login.error->sqlstate, "42501");
  const Answer nobody = answer(s, {{"role", "postgres"}});
  ASSERT_TRUE(nobody.error);
  EXPECT_EQ(nobody.error->failure, Failure::not_allowed);
  EXPECT_TRUE(comes_to_rest());
  open(small_ranges());
  psql("DROP TABLE wide; DROP ROLE part_reader, part_login");
}

TEST_F(PostgresParallel, RefusesWhatCannotBeReadInRanges) {
  const std::string range = " WHERE ctid >= :ctid_from AND ctid < :ctid_to";
  psql("CREATE OR REPLACE VIEW longest AS SELECT ctid, n FROM wide LIMIT 10");
  for (const std::string& text : {
           "SELECT n FROM wide" + range + " ORDER BY n",
           "SELECT n FROM wide" + range + " ORDER BY ctid",
           "SELECT n FROM wide" + range + " LIMIT 7",
           "SELECT n FROM wide" + range + " LIMIT :n",
           "SELECT n FROM wide" + range + " OFFSET 1",
           "SELECT count(*) FROM wide" + range,
           "SELECT DISTINCT text FROM wide" + range,
           "SELECT row_number() OVER (), n FROM wide" + range,
           std::string("SELECT a.n FROM wide a, wide b WHERE a.ctid >= :ctid_from AND a.ctid < :ctid_to AND a.n = b.n"),
           "SELECT n FROM wide" + range + " UNION ALL SELECT n FROM wide",
           "SELECT (SELECT sum(n) FROM wide" + range + ")",
           "WITH w AS MATERIALIZED (SELECT n FROM wide" + range + ") SELECT n FROM w",
           "SELECT n FROM longest" + range,
           std::string("SELECT n FROM wide WHERE ctid >= :ctid_from OR ctid < :ctid_to"),
           std::string("SELECT n FROM wide WHERE NOT (ctid >= :ctid_from AND ctid < :ctid_to)"),
           "SELECT n FROM (SELECT ctid::text AS ctid, n FROM wide) w" + range,
           std::string("SELECT n FROM wide"),
           "SELECT :ctid_from::tid, n FROM wide" + range,
       }) {
    const auto made = try_parallel(text, {.connections = 2});
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().failure, Failure::statement) << text;
    EXPECT_TRUE(made.error().message.starts_with("parallel: ")) << text << made.error().message;
  }
  for (const std::string& text : {
           "SELECT n, (SELECT count(*) FROM written) FROM wide" + range,
           "SELECT n, (SELECT max(name) FROM written w WHERE w.id = wide.n) FROM wide" + range,
           "SELECT n, generate_series(1, 2) FROM wide" + range,
           "SELECT n FROM (SELECT ctid, n FROM wide WHERE n > 5) w" + range,
           "WITH w AS (SELECT ctid, n FROM wide) SELECT n FROM w" + range + " AND n < 100",
       }) {
    const auto made = try_parallel(text, {.connections = 2});
    ASSERT_TRUE(made) << text << made.error().message;
    EXPECT_FALSE(answer(*made).error) << text;
  }
}

TEST_F(PostgresParallel, AServerThatGoesAwayEndsTheAnswer) {
  bool killed = false;
  const Statement s = parallel(all, {.connections = 3});
  const Answer got = answer(s, {}, [&](std::size_t block) {
    if (block != 1) return;
    psql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sluice'");
    killed = true;
  });
  EXPECT_TRUE(killed);
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->failure, Failure::lost);
  EXPECT_LT(got.rows.size(), static_cast<std::size_t>(row_count));
  Answer again;  // the query may meet each broken connection once
  for (int i = 0; i < 6 && (i == 0 || again.error); ++i) {
    EXPECT_TRUE(turn_until([&] { return database->open_connections() != 0; }));
    again = answer(s);
  }
  ASSERT_FALSE(again.error) << again.error->message;
  EXPECT_TRUE(again.rows == expected()) << again.rows.size();
}

}  // namespace
}  // namespace sluice::sql::postgres
