#include "sql/sqlite/planner.h"

#include <memory>

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace sluice::sql::sqlite {
namespace {

class PlannerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sqlite3_open(":memory:", &database_), SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(database_,
                     "CREATE TABLE films(id INTEGER PRIMARY KEY, slug TEXT UNIQUE, year INT, name TEXT, blob JSON);"
                     "CREATE INDEX by_year ON films(year);"
                     "CREATE TABLE tags(film TEXT, tag TEXT, PRIMARY KEY(film, tag)) WITHOUT ROWID;"
                     "CREATE VIEW recent AS SELECT * FROM films WHERE year > 2000;"
                     "CREATE VIRTUAL TABLE search USING fts5(text);",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
  }
  void TearDown() override { sqlite3_close(database_); }
  Plan plan(std::string_view text) { return plan_of(database_, text); }

  sqlite3* database_ = nullptr;
};

constexpr Plan one_row{true, true};
constexpr Plan few_rows{true, false};
constexpr Plan pool{false, false};

TEST_F(PlannerTest, LookUps) {
  EXPECT_EQ(plan("SELECT * FROM films WHERE id = ?1"), one_row);
  EXPECT_EQ(plan("SELECT * FROM films WHERE slug = ?1"), one_row);
  EXPECT_EQ(plan("SELECT count(*) FROM films WHERE slug = ?1"), one_row);
  EXPECT_EQ(plan("SELECT 1"), one_row);
  EXPECT_EQ(plan("SELECT * FROM tags WHERE film = ?1 AND tag = ?2"), one_row);
  EXPECT_EQ(plan("SELECT tag FROM tags WHERE film = ?1 ORDER BY tag"), few_rows);
  EXPECT_EQ(plan("SELECT * FROM films WHERE year = ?1"), few_rows);
  EXPECT_EQ(plan("SELECT tag FROM tags WHERE film = ?1 AND tag > ?2 ORDER BY tag LIMIT 200"), few_rows);
  EXPECT_EQ(plan("SELECT * FROM films WHERE year = ?1 AND id > ?2"), few_rows);
  EXPECT_EQ(plan("SELECT * FROM films WHERE id IN (1, 2, ?1)"), few_rows);
  EXPECT_EQ(plan("SELECT f.*, t.tag FROM films f JOIN tags t ON t.film = f.slug WHERE f.id = ?1"), few_rows);
  EXPECT_EQ(plan("SELECT id, (SELECT count(*) FROM tags WHERE film = slug) FROM films WHERE slug = ?1"), few_rows);
}

TEST_F(PlannerTest, WhatASingleCallMayTakeLongOver) {
  for (const char* text :
       {"SELECT ?1 LIKE ?2", "SELECT * FROM films WHERE id = ?1 AND name LIKE ?2",
        "SELECT * FROM films WHERE id = ?1 AND name GLOB ?2", "SELECT instr(name, ?1) FROM films WHERE id = 1",
        "SELECT trim(name, ?1), 2 FROM films WHERE id = 1", "SELECT ltrim(?1, ?2)", "SELECT RTRIM(?1, ?2)",
        "SELECT replace(?1, ?2, ?3)", "SELECT lower(replace(?1, 'a', ?2))",
        "SELECT json_patch(name, ?1) FROM films WHERE id = 1", "SELECT printf('%*d', ?1, id) FROM films WHERE id = 1",
        "SELECT 'a' || format('%s', name) FROM films WHERE id = 1",
        "SELECT snippet(search, 0, '<', '>', '.', 9) FROM search WHERE rowid = ?1",
        "SELECT highlight(search, 0, '<', '>') FROM search WHERE search MATCH ?1 AND rowid = 1"}) {
    EXPECT_EQ(plan(text), pool) << text;
  }
  EXPECT_EQ(plan("SELECT lower(name), substr(name, 2), hex(?1) FROM films WHERE id = ?2"), one_row);
}

TEST_F(PlannerTest, ScansAndSorts) {
  for (const char* text : {
           "SELECT * FROM films",
           "SELECT * FROM films WHERE name = ?1",
           "SELECT * FROM films WHERE id > ?1",
           "SELECT * FROM films WHERE year BETWEEN ?1 AND ?2",
           "SELECT * FROM films ORDER BY id",
           "SELECT * FROM films WHERE year = ?1 ORDER BY name",
           "SELECT DISTINCT name FROM films WHERE year = ?1",
           "SELECT count(*) FROM films",
           "SELECT max(id) FROM films",
           "SELECT * FROM recent WHERE name = ?1",
           "SELECT * FROM films WHERE id IN (SELECT id FROM films WHERE name = ?1)",
           "SELECT * FROM films f JOIN tags t ON t.tag = f.name WHERE f.id = ?1",
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n",
           "SELECT * FROM (SELECT * FROM films WHERE id = ?1 UNION ALL SELECT * FROM films WHERE id = ?2)",
           "SELECT 1 UNION ALL SELECT 2",
           "SELECT value FROM json_each(?1)",
           "SELECT * FROM search WHERE search MATCH ?1",
           "SELECT sum(year) OVER (ORDER BY id) FROM films WHERE year = ?1",
           "SELECT (SELECT count(*) FROM films) FROM films WHERE id = ?1",
           "PRAGMA table_info(films)",
           "SELECT nonsense FROM nowhere",
       }) {
    EXPECT_EQ(plan(text), pool) << text;
  }
}

}  // namespace
}  // namespace sluice::sql::sqlite
