#include "sql/plain_columns.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

// "films: id name * ?", where ? is an expression; "-" if the statement is not recognised. "a b?: a.id id": of two
// tables, of which the second may be absent.
std::string said(std::string_view statement, Dialect dialect = Dialect::postgres) {
  const auto plain = plain_columns(statement, dialect);
  if (!plain) return "-";
  std::string text;
  for (const auto& [name, may_be_absent] : plain->tables) {
    text += (text.empty() ? "" : " ") + name + (may_be_absent ? "?" : "");
  }
  text += ":";
  const bool is_one = plain->tables.size() == 1;
  for (const auto& [kind, name, table] : plain->items) {
    const std::string of = table && !is_one ? plain->tables[*table].name + "." : "";
    text += " " + of;
    text += kind == PlainColumns::Kind::all ? "*" : kind == PlainColumns::Kind::expression ? "?" : name;
  }
  return text;
}

TEST(PlainColumns, OfOneTable) {
  for (const auto dialect : {Dialect::postgres, Dialect::sqlite}) {
    EXPECT_EQ(said("SELECT * FROM films", dialect), "films: *");
    EXPECT_EQ(said("select ID, f.name AS n, f.* from main.films AS f where (x) = :y order by id limit (1)", dialect),
              "main.films: id name *");
    EXPECT_EQ(said("SELECT \"Id\" i FROM \"Films\" f", dialect), "Films: Id");
    EXPECT_EQ(said("SELECT id, 1, 'a', g.name, a || b, CASE WHEN a THEN b END FROM films", dialect),
              "films: id ? ? ? ? ?");
    EXPECT_EQ(said("INSERT INTO films (id) VALUES (:id) ON CONFLICT DO NOTHING RETURNING id, name", dialect),
              "films: id name");
    EXPECT_EQ(said("UPDATE films SET a = (SELECT 1 FROM b) WHERE id = :id RETURNING *", dialect), "films: *");
    EXPECT_EQ(said("DELETE FROM films WHERE id = :id RETURNING id -- and no more", dialect), "films: id");
  }
  EXPECT_EQ(said("SELECT id, lower(name) AS name, (SELECT max(x) FROM y) FROM films FOR UPDATE"), "films: id ? ?");
  EXPECT_EQ(said("SELECT id::text, name FROM films"), "films: ? name");
}

TEST(PlainColumns, OfJoinedTables) {
  for (const auto dialect : {Dialect::postgres, Dialect::sqlite}) {
    EXPECT_EQ(said("SELECT a.id, b.* FROM a JOIN b ON b.a = a.id WHERE a.x = 1", dialect), "a b: a.id b.*");
    EXPECT_EQ(said("SELECT x.id, name FROM a AS x INNER JOIN main.b y ON (y.a = x.id) ORDER BY 1", dialect),
              "a main.b: a.id name");
    EXPECT_EQ(
        said("SELECT a.id, b.id AS other, c.id FROM a LEFT JOIN b ON left(b.x, 1) = 'a' JOIN c USING (id)", dialect),
        "a b? c: a.id b.id c.id");
    EXPECT_EQ(said("SELECT * FROM a LEFT OUTER JOIN b ON true", dialect), "a b?: *");
    EXPECT_EQ(said("SELECT a.id FROM a, b CROSS JOIN c", dialect), "a b c: a.id");
    EXPECT_EQ(said("SELECT d.id FROM a JOIN b ON b.a = a.id", dialect), "a b: ?");
    for (const char* statement :
         {"SELECT a.id FROM a RIGHT JOIN b ON true", "SELECT a.id FROM a FULL JOIN b ON true",
          "SELECT a.id FROM a FULL OUTER JOIN b ON true", "SELECT a.id FROM a NATURAL JOIN b",
          "SELECT a.id FROM a NATURAL LEFT JOIN b", "SELECT c.id FROM a LEFT JOIN b JOIN c ON true ON true",
          "SELECT a.id FROM a JOIN b ON true RIGHT JOIN c ON true", "SELECT a.id FROM a JOIN (b) ON true",
          "SELECT a.id FROM a LEFT JOIN LATERAL (SELECT 1) b ON true", "SELECT a.id FROM a JOIN f(1) ON true"}) {
      EXPECT_EQ(said(statement, dialect), "-") << statement;
    }
  }
}

TEST(PlainColumns, WithPlaceholders) {
  EXPECT_EQ(said("SELECT id, $1, name AS e FROM films WHERE a = $2 AND b = 'done'"), "films: id $1 name");
  EXPECT_EQ(said("SELECT id, ?1, name FROM films WHERE a = ?2", Dialect::sqlite), "films: id ? name");
  EXPECT_EQ(said("SELECT id[1] FROM films"), "-");
  EXPECT_EQ(said("SELECT id, e'a' FROM films"), "-");
}

TEST(PlainColumns, NotOfWhatMayBeNull) {
  for (const char* statement : {"SELECT id FROM (SELECT 1) a",
                                "WITH a AS (SELECT 1) SELECT id FROM a",
                                "SELECT id FROM a UNION SELECT NULL",
                                "VALUES (1)",
                                "SELECT 1",
                                "SELECT id FROM a GROUP BY ROLLUP (id)",
                                "SELECT DISTINCT id FROM a",
                                "SELECT id FROM f(1)",
                                "UPDATE a SET x = b.x FROM b RETURNING b.id",
                                "DELETE FROM a USING b RETURNING b.id",
                                "DELETE FROM a",
                                "SELECT id FROM a b c",
                                "SELECT id FROM",
                                "SELECT",
                                "",
                                "SELECT id FROM a; ",
                                "SELECT $$a$$ FROM a",
                                "SELECT E'\\'', id FROM a",
                                "SELECT id /* from b */ FROM a",
                                "MERGE INTO a USING b ON true"}) {
    EXPECT_EQ(said(statement), "-") << statement;
  }
  EXPECT_EQ(said("SELECT id, max(x) FROM a", Dialect::sqlite), "-");
  EXPECT_EQ(said("SELECT id FROM a ORDER BY count(*)", Dialect::sqlite), "-");
}

}  // namespace
}  // namespace sluice::sql
