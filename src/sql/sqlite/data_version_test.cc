#include "sql/sqlite/data_version.h"

#include <string>

#include <gtest/gtest.h>

#include "sql/sqlite/test_support.h"

namespace sluice::sql {
namespace {

using sqlite::testing::Loop;
using sqlite::testing::TempFile;

class DataVersionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    file.execute(std::string("PRAGMA journal_mode = ") + GetParam());
    auto opened = DataVersion::open(file.options);
    ASSERT_TRUE(opened) << opened.error().message;
    probe = *std::move(opened);
  }
  std::uint64_t version() {
    const auto asked = loop.run(probe->version(loop.threads, loop.mailbox));
    EXPECT_TRUE(asked) << asked.error().message;
    return asked.value_or(0);
  }

  TempFile file{"CREATE TABLE films(id INTEGER PRIMARY KEY, name TEXT)"};
  Loop loop;
  std::unique_ptr<DataVersion> probe;
};

TEST_P(DataVersionTest, ChangesWithEachCommit) {
  std::uint64_t last = version();
  EXPECT_EQ(version(), last);
  for (const char* statement : {"INSERT INTO films VALUES (1, 'a')", "UPDATE films SET name = 'b'", "DELETE FROM films",
                                "CREATE TABLE other(n INT)", "ALTER TABLE films RENAME TO movies",
                                "BEGIN; INSERT INTO other VALUES (1); COMMIT"}) {
    file.execute(statement);
    const std::uint64_t now = version();
    EXPECT_NE(now, last) << statement;
    EXPECT_EQ(version(), now) << statement;
    last = now;
  }
  for (const char* statement : {"SELECT * FROM movies", "BEGIN; INSERT INTO other VALUES (2); ROLLBACK"}) {
    file.execute(statement);
    EXPECT_EQ(version(), last) << statement;
  }
}

TEST_P(DataVersionTest, FailsWhereTheFileIsNone) {
  SqliteOptions options = file.options;
  options.path += ".none";
  EXPECT_FALSE(DataVersion::open(options));
}

INSTANTIATE_TEST_SUITE_P(Journals, DataVersionTest, testing::Values("wal", "delete", "persist"));

}  // namespace
}  // namespace sluice::sql
