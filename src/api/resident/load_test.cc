#include "api/resident/load.h"

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "api/resident/database_for_tests.h"
#include "core/run_to_end.h"
#include "core/simulated_reactor.h"

namespace sluice::api::resident {
namespace {

class ResidentLoad : public testing::Test {
 protected:
  ResidentLoad() {
    plan.shape = {.key = "id", .index = {"name"}, .csv = false, .memory_limit = 1 << 20};
    plan.statement.text = "query";
    plan.timeout = 1s;
  }
  static std::vector<sql::Column> columns(bool is_deleted = false) {
    std::vector<sql::Column> all{column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25),
                                 column_of("at", sql::Form::number, 20)};
    if (is_deleted) all.push_back(column_of("gone", sql::Form::boolean, 16));
    return all;
  }
  static TestRows rows() {
    TestRows all(columns());
    all.row({"1", "a", "5"}).row({"2", "b", "7"}).row({"3", "c", nullptr});
    return all;
  }
  void track_changes() {
    plan.changes.emplace();
    plan.changes->statement.text = "changes";
    plan.changes->shape = {.version = "at", .deleted = "gone"};
  }
  std::expected<Loaded, LoadError> run() {
    return core::run_to_end(reactor, &mailbox, load(plan, database, reactor, mailbox, threads));
  }
  std::expected<Loaded, LoadError> run(const Loaded& before) {
    return core::run_to_end(reactor, &mailbox,
                            load_changes(plan, before.table, before.since, database, reactor, mailbox, threads));
  }
  // The error of a load that fails.
  std::string trouble() {
    const auto loaded = run();
    return loaded ? "none" : loaded.error().text + (loaded.error().may_pass ? " (may pass)" : "");
  }
  std::string trouble(const Loaded& before) {
    const auto loaded = run(before);
    return loaded ? "none" : loaded.error().text + (loaded.error().may_pass ? " (may pass)" : "");
  }

  core::SimulatedReactor reactor{1};
  core::Mailbox mailbox{reactor};
  core::BlockingPool threads{1, 16};
  TestDatabase database;
  Plan plan;
};

TEST_F(ResidentLoad, BlockByBlock) {
  database.gives(rows());
  const auto loaded = run();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->table->size(), 3u);
  EXPECT_EQ(loaded->table->object(2), "{\"id\":3,\"name\":\"c\",\"at\":null}\n");
  EXPECT_EQ(loaded->table->state(), table_of(plan.shape, rows())->state());
  EXPECT_FALSE(loaded->since.known()) << "nobody asks for changes";
}

TEST_F(ResidentLoad, WithoutRows) {
  database.gives(TestRows(columns()));
  const auto loaded = run();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->table->size(), 0u);
}

TEST_F(ResidentLoad, NotesWhereChangesBegin) {
  track_changes();
  database.gives(rows());
  const auto loaded = run();
  ASSERT_TRUE(loaded);
  ASSERT_TRUE(loaded->since.known());
  EXPECT_EQ(loaded->since.argument().text, "7");
}

TEST_F(ResidentLoad, SaysWhatTheDatabaseSays) {
  using sql::Failure;
  database.gives(rows());
  for (const std::size_t before : {0U, 2U}) {
    database.fails({Failure::statement, "42P01", "no such table", 0}, before);
    EXPECT_EQ(trouble(), "no such table (42P01)");
    database.fails({Failure::unavailable, {}, "away", 0}, before);
    EXPECT_EQ(trouble(), "away (may pass)");
    database.fails({Failure::lost, {}, "gone", 0}, before);
    EXPECT_EQ(trouble(), "gone (may pass)");
  }
}

TEST_F(ResidentLoad, RefusesWhatIsNoTable) {
  database.gives(std::move(TestRows(columns()).row({"1", "a", "1"}).row({"1", "b", "1"})));
  EXPECT_EQ(trouble(), "several rows have the key 1");
  database.gives(std::move(TestRows(columns()).row({nullptr, "a", "1"})));
  EXPECT_EQ(trouble(), "the key \"id\" of row 1 is NULL");
  database.gives(TestRows({column_of("name", sql::Form::text, 25)}));
  EXPECT_EQ(trouble(), "key \"id\" is no column of the query");
  track_changes();
  database.gives(TestRows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25)}));
  EXPECT_EQ(trouble(), "the version is no longer a column of the query");
  database.gives(std::move(TestRows(columns()).row({"1", "a", "soon"})));
  EXPECT_EQ(trouble(), "\"soon\" is no version");
  auto other = columns();
  other[2] = array_of("at", sql::Form::number);
  database.gives(std::move(TestRows(other).row({"1", "a", "{}"})));
  EXPECT_EQ(trouble(), "the version's type has changed");
  plan.changes.reset();
  plan.shape.memory_limit = 64;
  database.gives(rows());
  EXPECT_EQ(trouble(), "it takes more than its memory, 64 bytes");
}

TEST_F(ResidentLoad, NeedsAThreadForItsIndexes) {
  core::BlockingPool none(1, 0);
  database.gives(rows());
  const auto loaded = core::run_to_end(reactor, &mailbox, load(plan, database, reactor, mailbox, none));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().text, "the server is busy");
  EXPECT_TRUE(loaded.error().may_pass);
}

TEST_F(ResidentLoad, ChangesAlone) {
  track_changes();
  database.gives(rows());
  const auto first = run();
  ASSERT_TRUE(first);

  database.gives(TestRows(columns(true)));
  const auto same = run(*first);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->table, first->table) << "nothing has changed";
  EXPECT_EQ(same->since.argument().text, "7");

  database.gives(std::move(TestRows(columns(true)).row({"2", "b", "7", "f"})));
  const auto again = run(*first);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->table, first->table) << "it came again as it was";

  TestRows changes(columns(true));
  changes.row({"2", "B", "9", "f"}).row({"4", "d", "8", "f"}).row({"1", nullptr, "10", "t"});
  database.gives(std::move(changes));
  const auto next = run(*first);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->table->objects(0, next->table->size()),
            "{\"id\":2,\"name\":\"B\",\"at\":9}\n,{\"id\":3,\"name\":\"c\",\"at\":null}\n,{\"id\":4,\"name\":\"d\","
            "\"at\":8}\n");
  EXPECT_EQ(next->since.argument().text, "10");
  EXPECT_EQ(first->table->size(), 3u) << "the one before is as it was";
  EXPECT_EQ(database.asked, (std::vector<std::string>{"query", "changes 7", "changes 7", "changes 7"}));
}

TEST_F(ResidentLoad, ChangesThatCannotBeRead) {
  track_changes();
  database.gives(rows());
  const auto first = run();
  ASSERT_TRUE(first);
  database.fails({sql::Failure::timed_out, "57014", "too slow", 0});
  EXPECT_EQ(trouble(*first), "too slow (57014) (may pass)");
  database.gives(std::move(TestRows(columns()).row({"1", "a", "9"})));
  EXPECT_EQ(trouble(*first), "deleted \"gone\" is no column of the changes");
  database.gives(std::move(TestRows(columns(true)).row({"1", "a", "9", "f"}).row({"1", "b", "9", "f"})));
  EXPECT_EQ(trouble(*first), "several rows have the key 1");
  database.gives(std::move(TestRows(columns(true)).row({"1", "a", "soon", "f"})));
  EXPECT_EQ(trouble(*first), "\"soon\" is no version");
}

}  // namespace
}  // namespace sluice::api::resident
