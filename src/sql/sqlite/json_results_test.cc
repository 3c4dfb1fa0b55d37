#include "sql/sqlite/json_results.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace sluice::sql::sqlite {
namespace {

TEST(JsonResults, AreKnownByTheirExpressions) {
  // "j": JSON; "-": not JSON.
  const std::pair<const char*, const char*> statements[] = {
      {"SELECT id, json_object('a', a) FROM t", "-j"},
      {"SELECT JSON_GROUP_ARRAY(a) AS list, id i, json ( doc ) \"doc\" FROM t ORDER BY id", "j-j"},
      {"SELECT DISTINCT json(a) FROM t", "j"},
      {"SELECT json_array(1) || '', json_array(1) = json_array(2), upper(json(a)), json_extract(a, '$')", "----"},
      {"SELECT json_group_array(a) FILTER (WHERE a > 1) OVER (PARTITION BY b) x FROM t", "j"},
      {"SELECT (SELECT json_group_array(json_object('tag', tag)) FROM tags WHERE film = id) AS tags FROM t", "j"},
      {"SELECT (json(a)), (SELECT a, 1 FROM t), coalesce(json(a), '[]'), ifnull(a, json(b)), coalesce(a)", "j-j--"},
      {"SELECT doc -> '$.a', doc ->> '$.a', doc -> 'a' ->> 'b', doc ->> 'a' -> 'b' x, doc -> 'a' = 1, t.doc -> 'a' AS "
       "y",
       "j--j-j"},
      {"SELECT t.*, json(a), b FROM t", "---j-"},
      {"SELECT json(a), * FROM t", "j--"},
      {"SELECT t.*, json(a), u.* FROM t, u", "-----"},
      {"SELECT count(*), json(a) FROM t", "-j"},
      {"WITH x AS (SELECT json(a) AS a, 1 FROM t) SELECT a, json(a) FROM x", "-j"},
      {"SELECT json(a) FROM t UNION ALL SELECT b FROM t", "j"},
      {"INSERT INTO t (a) SELECT json(b), 1 FROM u RETURNING a, json(a)", "-j"},
      {"UPDATE t SET a = 1 RETURNING json_object('a', a) AS a", "j"},
      {"DELETE FROM t WHERE a IN (SELECT json(a) FROM t) RETURNING a", "-"},
      {"INSERT INTO t VALUES (json(?1))", ""},
      {"VALUES (json(1), 2)", "--"},
      {"SELECT 'json(a)', \"json\"(a), json", "---"},
      {"SELECT /* , */ json(a) -- , \n, 1", "j-"},
      {"SELECT ", "-"},
      {"(((", "-"},
  };
  for (const auto& [statement, expected] : statements) {
    std::string found;
    for (const bool json : json_results(statement, std::string(expected).size())) found += json ? 'j' : '-';
    EXPECT_EQ(found, expected) << statement;
  }
}

}  // namespace
}  // namespace sluice::sql::sqlite
