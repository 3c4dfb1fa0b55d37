#include "services/databases.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "sql/sqlite/database.h"
#include "sql/sqlite/test_support.h"
#include "sql/sqlite/writer.h"

namespace sluice::services {
namespace {

class DatabasesTest : public testing::Test {
 protected:
  DatabasesTest()
      : file_("CREATE TABLE messages (id integer PRIMARY KEY, room text NOT NULL, text text, score real);") {
    writer_ = std::move(*sql::SqliteWriter::open(file_.options));
    databases_.set({{"main", open()}});
  }
  std::shared_ptr<sql::Database> open() {
    auto opened = sql::SqliteDatabase::open(file_.options, *loop_.reactor, loop_.mailbox, loop_.threads, writer_.get());
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  Database& main() { return databases_.at("main"); }
  Database::Result read(std::string_view statement, std::vector<Value> values = {}) {
    return loop_.run(main().read(statement, std::move(values), Database::patience));
  }
  Database::Result write(std::string_view statement, std::vector<Value> values = {}) {
    return loop_.run(main().write(statement, std::move(values), Database::patience));
  }

  sql::sqlite::testing::TempFile file_;
  std::unique_ptr<sql::SqliteWriter> writer_;
  sql::sqlite::testing::Loop loop_;
  Databases databases_{*loop_.reactor};
};

TEST_F(DatabasesTest, ValuesGoThereAndBack) {
  const auto written =
      write("INSERT INTO messages (room, text, score) VALUES (:room, :text, :score), (:room, NULL, 2) RETURNING id",
            {{"score", 1.5}, {"text", "it's"}, {"room", std::string("a")}});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->changes(), 2u);
  EXPECT_EQ(written->at(1, "id"), "2");
  for (int i = 0; i < 2; ++i) {
    const auto rows = read("SELECT text, score FROM messages WHERE room = :room AND id < :most ORDER BY id",
                           {{"room", "a"}, {"most", 3}});
    ASSERT_TRUE(rows) << rows.error().message;
    ASSERT_EQ(rows->size(), 2u);
    EXPECT_EQ(rows->at(0, "text"), "it's");
    EXPECT_EQ(rows->at(0, "score"), "1.5");
    EXPECT_EQ(rows->at(1, "text"), std::nullopt);
  }
  const auto none = read("SELECT 1 AS one WHERE :never IS NOT NULL", {{"never", nullptr}});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  EXPECT_THROW((void)none->at(0, "one"), std::out_of_range);
  EXPECT_THROW((void)none->at(0, "two"), std::out_of_range);
}

TEST_F(DatabasesTest, WrongCallsSayWhy) {
  const auto message = [](const Database::Result& result) { return result ? "" : result.error().message; };
  EXPECT_EQ(message(read("SELECT :a", {})), "the parameter :a has no value");
  EXPECT_EQ(message(read("SELECT :a", {{"a", 1}, {"b", 1}})), "the statement has no parameter :b");
  EXPECT_NE(message(read("SELECT nothing FROM messages")), "");
  EXPECT_NE(message(read("DELETE FROM messages")), "") << "read() writes nothing";
  const auto broken = write("INSERT INTO messages (room) VALUES (:room)", {{"room", nullptr}});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().sqlstate, "23502");
  const auto large = read("SELECT zeroblob(17 << 20)");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().failure, sql::Failure::too_large);
}

TEST_F(DatabasesTest, SeveralStatementsTakeEffectTogetherOrNotAtAll) {
  const auto write_all = [&](const char* second) {
    std::vector<Database::Step> steps(2);
    steps[0] = {.statement = "INSERT INTO messages (room) VALUES (:room), ('b') RETURNING id",
                .values = {{"room", "a"}}};
    steps[1] = {.statement = second, .values = {{"text", "hello"}}};
    return loop_.run(main().write_all(std::move(steps)));
  };
  const auto both = write_all("UPDATE messages SET text = :text");
  ASSERT_TRUE(both) << both.error().message;
  ASSERT_EQ(both->size(), 2u);
  EXPECT_EQ(both->at(0).at(1, "id"), "2");
  EXPECT_EQ(both->at(1).changes(), 2u);
  for (const char* second : {"UPDATE messages SET text = :text, room = NULL", "UPDATE nothing SET text = :text",
                             "UPDATE messages SET text = :other"}) {
    EXPECT_FALSE(write_all(second)) << second;
    EXPECT_EQ(read("SELECT count(*) AS n FROM messages")->at(0, "n"), "2") << second;
  }
  EXPECT_TRUE(loop_.run(main().write_all({}))->empty());
}

TEST_F(DatabasesTest, ADatabaseThatAReloadReplacesOrRemoves) {
  Database& main = this->main();
  EXPECT_TRUE(read("SELECT 1"));
  databases_.set({{"main", open()}, {"other", open()}});
  EXPECT_EQ(&databases_.at("main"), &main);
  EXPECT_TRUE(read("SELECT 1"));
  databases_.set({{"other", open()}});
  const auto gone = read("SELECT 1");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().failure, sql::Failure::unavailable);
  databases_.set({{"main", open()}});
  EXPECT_TRUE(read("SELECT 1"));
  try {
    (void)databases_.at("mian");
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "there is no [database.mian]; the configuration has \"main\" \"other\"");
  }
}

}  // namespace
}  // namespace sluice::services
