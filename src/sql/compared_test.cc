#include "sql/compared.h"

#include <string>

#include <gtest/gtest.h>

#include "sql/parameters.h"

namespace sluice::sql {
namespace {

// "id~films.id", or "id~films|tags.id" if the column may belong to several tables.
std::string pairs(std::string_view statement, Mentions mentions = Mentions::one) {
  const auto parsed = parse_parameters(statement, PlaceholderStyle::question);
  if (!parsed) return compared_columns(statement).empty() ? "" : "something";
  std::string text;
  for (const Compared& one : compared_columns(parsed->text, mentions)) {
    text += (text.empty() ? "" : " ") + parsed->names.at(one.parameter) + "~";
    for (const std::string& table : one.tables) text += (&table == one.tables.data() ? "" : "|") + table;
    text += "." + (one.column.empty() ? std::to_string(one.position) : one.column);
    if (one.use == Compared::Use::chosen) text += "?";
  }
  return text;
}

TEST(ComparedColumns, OfComparisons) {
  for (const auto& [statement, expected] : {
           std::pair{"SELECT * FROM t WHERE id = :id", "id~t.id"},
           {"SELECT * FROM T WHERE Id == :id;", "id~t.id"},
           {"SELECT * FROM t WHERE :id = id", "id~t.id"},
           {"SELECT * FROM t WHERE id = (:id)", "id~t.id"},
           {"SELECT * FROM t WHERE (id) = :id", "id~t.id"},
           {"SELECT * FROM t WHERE ((t.id) = ((:id)))", "id~t.id"},
           {"SELECT * FROM t AS f WHERE f.id IS :id", "id~t.id"},
           {"SELECT * FROM t 'f' WHERE f.id = :id", "id~t.id"},
           {"SELECT * FROM t WHERE id IN (:id)", "id~t.id"},
           {"SELECT DISTINCT a, (SELECT 1 FROM u) FROM main.t WHERE main.t.[a b] = :x LIMIT :n", "x~t.a b"},
           {"SELECT a FROM t WHERE a LIKE :l AND b = :b AND (c = :c AND d > :d) ORDER BY e", "b~t.b c~t.c"},
           {"SELECT a FROM t WHERE a BETWEEN :x AND :y AND b = :b", "b~t.b"},
           {"SELECT a FROM t WHERE b = :b AND EXISTS (SELECT 1 FROM u WHERE id = :no OR 1) GROUP BY a", "b~t.b"},
           {"SELECT t.a FROM t, \"U v\" AS u WHERE u.x = :x AND y = :y", "x~u v.x y~t|u v.y"},
           {"SELECT 1 FROM a JOIN b ON a.i = b.i LEFT OUTER JOIN c USING (i) WHERE b.k = :k", "k~b.k"},
           {"SELECT 1 FROM a NATURAL JOIN b x CROSS JOIN c INDEXED BY i WHERE x.k = :k", "k~b.k"},
           {"DELETE FROM t -- a = :no\nWHERE /* b = :no */ c = :c;", "c~t.c"},
           {"DELETE FROM t AS x WHERE x.c = :c RETURNING d", "c~t.c"},
           {"UPDATE t SET a = :a, b = lower(:b), c = c + 1 WHERE d = :d RETURNING a", "a~t.a d~t.d"},
           {"UPDATE OR IGNORE t AS x SET a = :a FROM u WHERE u.id = x.id AND u.k = :k AND x.l = :l",
            "a~t.a k~u.k l~t.l"},
           {"UPDATE t SET a = ((:a)), b = c WHERE d = :d", "a~t.a d~t.d"},
       }) {
    EXPECT_EQ(pairs(statement), expected) << statement;
  }
}

TEST(ComparedColumns, OfConditionsThatMayBeLeftOut) {
  for (const auto& [statement, expected] :
       {std::pair{"SELECT * FROM t WHERE :x IS NULL OR a = :x", "x~t.a"},
        {"SELECT * FROM t WHERE (a = :x OR :x IS NULL) AND (:y IS NULL OR b IN (:y))", "x~t.a y~t.b"},
        {"SELECT * FROM t WHERE :x IS NULL OR a = :y", ""},
        {"SELECT * FROM t WHERE :x IS NOT NULL OR a = :x", ""},
        {"SELECT * FROM t WHERE :x IS NULL OR a = :x OR b = :x", ""},
        {"SELECT * FROM t WHERE c AND :x IS NULL OR a = :x", ""},
        {"SELECT * FROM t WHERE :x IS NULL OR a = :x AND b", ""}}) {
    EXPECT_EQ(pairs(statement, Mentions::any), expected) << statement;
    EXPECT_EQ(pairs(statement), "") << statement;
  }
}

TEST(ComparedColumns, OfRanges) {
  for (const auto& [statement, expected] :
       {std::pair{"SELECT * FROM t WHERE a >= :x AND :y < b", "x~t.a y~t.b"},
        {"SELECT * FROM t WHERE a BETWEEN :x AND :y AND b NOT BETWEEN 1 AND :z", "x~t.a y~t.a z~t.b"},
        {"SELECT * FROM t WHERE :x BETWEEN a AND b", "x~t.a x~t.b"},
        {"DELETE FROM t WHERE a <> :x AND b != :y AND c IS NOT :z", "x~t.a y~t.b z~t.c"},
        {"SELECT * FROM t WHERE :x IS NULL OR a > :x", "x~t.a"},
        {"SELECT * FROM t WHERE a > :x + 1 AND b = NOT :y AND c IS NOT NULL AND d NOT IN (:z) AND NOT e = :d", ""}}) {
    EXPECT_EQ(pairs(statement, Mentions::any), expected) << statement;
    EXPECT_EQ(pairs(statement), "") << statement;
  }
}

TEST(ComparedColumns, OfInserts) {
  EXPECT_EQ(pairs("INSERT INTO t (a, \"B\", c) VALUES (:x, lower(:y), :z), (1, :p, :q + 1) ON CONFLICT DO NOTHING"),
            "x~t.a z~t.c p~t.b");
  EXPECT_EQ(pairs("REPLACE INTO main.t(a) VALUES(:x)"), "x~t.a");
  EXPECT_EQ(pairs("INSERT OR IGNORE INTO t AS x (a, b) VALUES (f(1, :n), :x)"), "x~t.b");
  EXPECT_EQ(pairs("INSERT INTO main.t AS q (a, b) VALUES ((:x), ((:y)))"), "x~t.a y~t.b");
  for (const auto& [statement, expected] :
       {std::pair{"INSERT INTO t VALUES (:x, 1, (:y))", "x~t.0 y~t.2"},
        {"INSERT INTO t (a) SELECT b FROM u WHERE b = :b", "b~u.b"},
        {"INSERT INTO t (a, b) SELECT :x, lower(:y)", "x~t.a"},
        {"INSERT INTO t SELECT DISTINCT :x, u.*, :y FROM u WHERE a = :z ON CONFLICT DO NOTHING", "x~t.0 z~u.a"},
        {"INSERT INTO t (a) SELECT :x UNION SELECT :y", ""},
        {"INSERT INTO t (a) WITH c AS (SELECT 1) SELECT :x", ""},
        {"INSERT INTO t DEFAULT VALUES", ""}}) {
    EXPECT_EQ(pairs(statement, Mentions::any), expected) << statement;
    EXPECT_EQ(pairs(statement), "") << statement;
  }
  const char* const upsert =
      "INSERT INTO t (a) VALUES (coalesce(:x, 0)) ON CONFLICT (a) DO UPDATE SET b = ifnull((:y), b), c = :z";
  EXPECT_EQ(pairs(upsert, Mentions::any), "x~t.a? y~t.b? z~t.c");
  EXPECT_EQ(pairs(upsert), "");
  EXPECT_EQ(pairs("INSERT INTO t (a) VALUES (:x) ON CONFLICT (a) DO UPDATE SET b = :x"), "");
}

TEST(ComparedColumns, OfAParameterInSeveralPlaces) {
  const char* const statement =
      "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO UPDATE SET b = ?2 WHERE b <> ?2";
  const auto once = compared_columns(statement);
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].column, "a");
  const auto any = compared_columns(statement, Mentions::any);
  ASSERT_EQ(any.size(), 3u);
  EXPECT_EQ(any[1].column, "b");
  EXPECT_EQ(any[2].column, "b");
}

TEST(ComparedColumns, NothingIsGuessed) {
  for (const char* other :
       {"SELECT * FROM t WHERE a + b = :x", "SELECT * FROM t WHERE a = :x + 1", "SELECT * FROM t WHERE a = :x || 'b'",
        "SELECT * FROM t WHERE a = b = :x", "SELECT * FROM t WHERE lower(a) = :x",
        "SELECT * FROM t WHERE a = :x COLLATE nocase", "SELECT * FROM t WHERE a LIKE :x",
        "SELECT * FROM t WHERE 'a = :x'", "SELECT :x", "SELECT a FROM t LIMIT :x",
        "SELECT * FROM (SELECT lower(n) AS a FROM t) WHERE a = :x",
        "SELECT * FROM (SELECT lower(n) a FROM t) WHERE a = :x", "SELECT * FROM (SELECT n a FROM t) WHERE a = :x",
        "SELECT * FROM (t) WHERE a = :x", "WITH c(a) AS (SELECT n FROM t) SELECT * FROM c WHERE a = :x",
        "SELECT * FROM t WHERE a = CAST(:x AS text)", "SELECT * FROM t WHERE :x = a || b",
        "SELECT * FROM t WHERE -a = :x", "SELECT * FROM (SELECT a FROM t UNION SELECT b FROM u) WHERE a = :x",
        // The parameter has another use as well.
        "SELECT * FROM t WHERE :x = '' OR a = :x", "SELECT * FROM t WHERE a = :x OR b = :x",
        "SELECT * FROM t WHERE a = :x AND b = :x", "SELECT * FROM t WHERE a = :x AND b LIKE :x || '%'",
        "SELECT :x FROM t WHERE a = :x", "SELECT * FROM t WHERE b AND (a = :x OR c)",
        // The parameter may be given a value that matches nothing.
        "SELECT * FROM t WHERE a <> :x", "SELECT * FROM t WHERE a IS NOT :x", "SELECT * FROM t WHERE NOT a = :x",
        "SELECT * FROM t WHERE NOT (a = :x)", "SELECT * FROM t WHERE a NOT IN (:x)",
        "SELECT * FROM t WHERE a IN (:x, :y)", "SELECT * FROM t WHERE CASE WHEN a = :x THEN 1 END",
        "SELECT a = :x FROM t", "SELECT * FROM t ORDER BY a = :x", "SELECT * FROM t LEFT JOIN u ON u.a = :x",
        "SELECT * FROM t GROUP BY b HAVING a = :x", "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a = :x)",
        // Ranges: their bounds need not be values of the column.
        "SELECT * FROM t WHERE a >= :x", "SELECT * FROM t WHERE a BETWEEN :x AND :y",
        "SELECT * FROM t WHERE a BETWEEN 1 AND b = :x",
        // Other things with the column's name.
        "SELECT s.id FROM settings s, json_each(s.tags) j WHERE j.value = :x",
        "SELECT s.id FROM settings s JOIN json_each(s.tags) WHERE value = :x", "SELECT b AS a FROM t WHERE a = :x",
        "SELECT b AS 'a' FROM t WHERE a = :x", "SELECT lower(b) [a] FROM t WHERE a = :x",
        "SELECT * FROM t JOIN (SELECT b 'a' FROM u) WHERE a = :x", "SELECT * FROM t a, t a WHERE a.b = :x",
        "SELECT * FROM temp.t WHERE a = :x", "SELECT * FROM t WHERE u.a = :x",
        "SELECT * FROM t WHERE (a, b) = (:x, :y)", "UPDATE t SET (a, b) = (:x, :y)",
        "EXPLAIN SELECT * FROM t WHERE a = :x", "VALUES (:x)", "", "(", ":x =", "SELECT FROM WHERE a = :x",
        "SELECT * FROM t WHERE (((", "SELECT * FROM t WHERE a IN (", "SELECT * FROM t WHERE a BETWEEN", "DELETE FROM",
        "UPDATE", "UPDATE t SET a =", "INSERT INTO", "INSERT INTO t (a", "INSERT INTO t (a) VALUES (", "'", "\"", "[",
        "/*"}) {
    EXPECT_EQ(pairs(other), "") << other;
  }
}

}  // namespace
}  // namespace sluice::sql
