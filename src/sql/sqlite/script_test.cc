#include "sql/sqlite/script.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::sql::sqlite {
namespace {

class SqliteScript : public testing::Test {
 protected:
  SqliteScript() {
    std::string folder = testing::TempDir() + "sluice-script-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    folder_ = folder;
  }
  ~SqliteScript() override { std::filesystem::remove_all(folder_); }

  // "" after success; otherwise the position and the message.
  std::string run(std::string_view script) {
    const auto done = run_script(folder_ + "/a.db", script, [] { return false; });
    return done ? "" : std::to_string(done.error().position) + ": " + done.error().message;
  }
  std::string folder_;
};

TEST_F(SqliteScript, RunsAllStatements) {
  EXPECT_EQ(run(""), "");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/a.db"));
  EXPECT_EQ(run("CREATE TABLE a (n INTEGER CHECK (n < 10)); -- one; two\n INSERT INTO a VALUES (1), (2);\n /* ; */ "
                "SELECT * FROM a;\n"),
            "");
  EXPECT_EQ(run("CREATE TABLE b (t TEXT); INSERT INTO b VALUES (';')"), "");
  EXPECT_EQ(run("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END;\nSELECT * FROM a;"), "");
}

TEST_F(SqliteScript, ErrorsHaveTheirPlace) {
  EXPECT_EQ(run("SELECT 'ß';\nSELECT gone"), "20: no such column: gone");
  EXPECT_EQ(run("CREATE TABLE a (n INTEGER PRIMARY KEY);\n\nINSERT INTO a VALUES (1), (1);"),
            "42: UNIQUE constraint failed: a.n");
  EXPECT_EQ(run("CREATE TABLE p (n INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p); INSERT INTO c VALUES (1)"),
            "74: FOREIGN KEY constraint failed");
  EXPECT_EQ(run("BEGIN; SELECT 1;"), "0: the script ends inside of a transaction");
}

TEST_F(SqliteScript, IsStopped) {
  int looks = 0;
  const auto done = run_script(folder_ + "/a.db",
                               "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c",
                               [&] { return ++looks > 10; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().failure, Failure::timed_out);
}

TEST_F(SqliteScript, AFileThatCannotBe) {
  const auto done = run_script(folder_ + "/none/a.db", "", [] { return false; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().failure, Failure::unavailable);
}

}  // namespace
}  // namespace sluice::sql::sqlite
