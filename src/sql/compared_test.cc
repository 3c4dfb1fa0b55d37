#include "sql/compared.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "sql/parameters.h"

namespace sluice::sql {
namespace {

std::string pairs(std::string_view statement) {
  const auto parsed = parse_parameters(statement, PlaceholderStyle::question);
  if (!parsed) return compared_columns(statement).pairs.empty() ? "" : "something";
  std::string text;
  for (const auto& [parameter, column] : compared_columns(parsed->text).pairs) {
    text += (text.empty() ? "" : " ") + parsed->names.at(parameter) + "~" + column;
  }
  return text;
}

TEST(ComparedColumns, OfComparisons) {
  EXPECT_EQ(pairs("SELECT * FROM t WHERE id = :id AND t.Score >= :least OR (:n <> \"a b\")"),
            "id~id least~score n~a b");
  EXPECT_EQ(pairs("SELECT a FROM t WHERE a BETWEEN :x AND :y AND b NOT IN (:p, :q) ORDER BY a"), "x~a y~a p~b q~b");
  EXPECT_EQ(pairs("UPDATE t SET a = :a, b = :b WHERE m.t.[k] = :k RETURNING a"), "a~a b~b k~k");
  EXPECT_EQ(pairs("DELETE FROM t -- a = :no\nWHERE /* b = :no */ c = :c;"), "c~c");
}

TEST(ComparedColumns, OfInserts) {
  EXPECT_EQ(pairs("INSERT INTO t (a, \"B\", c) VALUES (:x, lower(:y), :z), (1, :p, :q + 1) ON CONFLICT DO NOTHING"),
            "x~a z~c p~b");
  EXPECT_EQ(pairs("REPLACE INTO main.t(a) VALUES(:x)"), "x~a");
  EXPECT_EQ(pairs("INSERT INTO t VALUES (:x)"), "");
  EXPECT_EQ(pairs("INSERT INTO t (a) SELECT b FROM u WHERE b < :b"), "b~b");
}

TEST(ComparedColumns, NothingIsGuessed) {
  for (const char* other : {"SELECT * FROM t WHERE a + b = :x",
                            "SELECT * FROM t WHERE a = :x + 1",
                            "SELECT * FROM t WHERE a = :x || 'b'",
                            "SELECT * FROM t WHERE lower(a) = :x",
                            "SELECT * FROM t WHERE a = :x COLLATE nocase",
                            "SELECT * FROM t WHERE a LIKE :x",
                            "SELECT * FROM t WHERE 'a = :x'",
                            "SELECT :x",
                            "SELECT a FROM t LIMIT :x",
                            "SELECT * FROM (SELECT lower(n) AS a FROM t) WHERE a = :x",
                            "SELECT * FROM (SELECT lower(n) a FROM t) WHERE a = :x",
                            "SELECT * FROM (SELECT n a FROM t) WHERE a = :x",
                            "WITH c(a) AS (SELECT n FROM t) SELECT * FROM c WHERE a = :x",
                            "SELECT * FROM t WHERE a = CAST(:x AS text)",
                            "SELECT * FROM t WHERE :x = a || b",
                            "SELECT * FROM t WHERE -a = :x",
                            "SELECT * FROM (SELECT a FROM t UNION SELECT b FROM u) WHERE a = :x",
                            "",
                            "(",
                            ":x =",
                            "INSERT INTO",
                            "INSERT INTO t (a",
                            "INSERT INTO t (a) VALUES (",
                            "a BETWEEN",
                            "'",
                            "\"",
                            "[",
                            "/*"}) {
    EXPECT_EQ(pairs(other), "") << other;
  }
}

TEST(ComparedColumns, NamesThatMayBeTables) {
  const auto names = compared_columns("SELECT a FROM Films JOIN \"x y\" ON b = ?1").names;
  EXPECT_EQ(std::ranges::count(names, "films"), 1);
  EXPECT_EQ(std::ranges::count(names, "x y"), 1);
  EXPECT_EQ(std::ranges::count(names, "1"), 0);
}

}  // namespace
}  // namespace sluice::sql
