#include "sql/parameters.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

using Names = std::vector<std::string>;

struct Case {
  PlaceholderStyle style;
  std::string_view sql;
  std::string_view text;
  Names names;
};
constexpr auto pg = PlaceholderStyle::dollar;
constexpr auto lite = PlaceholderStyle::question;

TEST(Parameters, Rewrites) {
  const Case cases[] = {
      {pg, "SELECT 1", "SELECT 1", {}},
      {pg, "SELECT * FROM t WHERE a = :a", "SELECT * FROM t WHERE a = $1", {"a"}},
      {lite, "SELECT * FROM t WHERE a = :a", "SELECT * FROM t WHERE a = ?1", {"a"}},
      {pg, "SELECT :a, :b, :a, :_c9", "SELECT $1, $2, $1, $3", {"a", "b", "_c9"}},
      {lite, "SELECT :a, :b, :a, :_c9", "SELECT ?1, ?2, ?1, ?3", {"a", "b", "_c9"}},
      {pg, "SELECT :A,:a", "SELECT $1,$2", {"A", "a"}},
      {pg, "SELECT 1 LIMIT:n", "SELECT 1 LIMIT $1", {"n"}},
      {lite, "SELECT 1 LIMIT:n", "SELECT 1 LIMIT ?1", {"n"}},
      // Strings, identifiers and comments contain no parameters.
      {pg, "SELECT ':x', 'it''s :y', :z", "SELECT ':x', 'it''s :y', $1", {"z"}},
      {pg, "SELECT \":x\"\":y\", :z", "SELECT \":x\"\":y\", $1", {"z"}},
      {lite, "SELECT `:x``:y`, [:q], \":r\", :z", "SELECT `:x``:y`, [:q], \":r\", ?1", {"z"}},
      {pg, "SELECT -- :x\n :y", "SELECT -- :x\n $1", {"y"}},
      {pg, "SELECT /* :x /* :w */ :v */ :y", "SELECT /* :x /* :w */ :v */ $1", {"y"}},
      {lite, "SELECT /* :x /* :w */ :y", "SELECT /* :x /* :w */ ?1", {"y"}},
      {pg, "SELECT E'a\\':x', :y", "SELECT E'a\\':x', $1", {"y"}},
      {pg, "SELECT e'a\\\\', :y", "SELECT e'a\\\\', $1", {"y"}},
      {pg, "SELECT E'a'\n -- c\n 'b\\':x', :y", "SELECT E'a'\n -- c\n 'b\\':x', $1", {"y"}},
      {pg, "SELECT E'a' , 'b\\', :y", "SELECT E'a' , 'b\\', $1", {"y"}},
      {pg, "SELECT 'a\\', :y", "SELECT 'a\\', $1", {"y"}},
      {lite, "SELECT E'a\\', :y", "SELECT E'a\\', ?1", {"y"}},
      {pg, "SELECT fee'a\\', :y", "SELECT fee'a\\', $1", {"y"}},
      {pg, "SELECT $$ :x ' $$, :y", "SELECT $$ :x ' $$, $1", {"y"}},
      {pg, "SELECT $t$ :x $$ $T$ $t$, :y", "SELECT $t$ :x $$ $T$ $t$, $1", {"y"}},
      {pg, "SELECT a$b$ , :y, c$b$", "SELECT a$b$ , $1, c$b$", {"y"}},
      // Colons that are not parameters.
      {pg, "SELECT :a::int, 'x'::text", "SELECT $1::int, 'x'::text", {"a"}},
      {pg, "SELECT f(x := :a)", "SELECT f(x := $1)", {"a"}},
      {pg, "SELECT a[1:2], a[:n], a[1: n]", "SELECT a[1:2], a[$1], a[1: n]", {"n"}},
      {pg, "SELECT a:::b", "SELECT a::$1", {"b"}},
      {pg, "SELECT 1:", "SELECT 1:", {}},
      // In PostgreSQL, the question mark and the at sign are operators, and [ does not begin a quoted identifier.
      {pg, "SELECT j ? 'a' AND j @> :b AND @ x", "SELECT j ? 'a' AND j @> $1 AND @ x", {"b"}},
      {pg, "SELECT a[:i]", "SELECT a[$1]", {"i"}},
      // A semicolon at the end is removed, and so are blanks and comments there.
      {pg, "SELECT 1;", "SELECT 1", {}},
      {pg, "SELECT :a ; -- done\n /* ; */ ", "SELECT $1", {"a"}},
      {lite, "SELECT ';' -- ;\n", "SELECT ';'", {}},
      {lite, "SELECT 1e5, 0x1F, 1.5:a", "SELECT 1e5, 0x1F, 1.5 ?1", {"a"}},
      {lite, "SELECT x\xC3\xA9$1, :a", "SELECT x\xC3\xA9$1, ?1", {"a"}},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_parameters(c.sql, c.style);
    ASSERT_TRUE(parsed) << c.sql << ": " << parsed.error().message;
    EXPECT_EQ(parsed->text, c.text) << c.sql;
    EXPECT_EQ(parsed->names, c.names) << c.sql;
  }
}

struct Refusal {
  PlaceholderStyle style;
  std::string_view sql;
  std::string_view message;
  std::uint32_t position;
};

TEST(Parameters, Refuses) {
  using namespace std::string_view_literals;
  const Refusal cases[] = {
      {pg, "", "empty", 1},
      {pg, " -- x\n", "empty", 1},
      {lite, ";", "empty", 1},
      {pg, "SELECT 'a", "a string that does not end", 8},
      {pg, "SELECT 'a''", "a string that does not end", 8},
      {pg, "SELECT E'a\\'", "a string that does not end", 9},
      {pg, "SELECT E'a\\", "a string that does not end", 9},
      {pg, "SELECT \"a", "identifier that does not end", 8},
      {lite, "SELECT `a", "identifier that does not end", 8},
      {lite, "SELECT [a", "identifier that does not end", 8},
      {pg, "SELECT 1 /* /* */", "comment that does not end", 10},
      {lite, "SELECT 1 /*/", "comment that does not end", 10},
      {pg, "SELECT $a$ $b$", "dollar-quoted string that does not end", 8},
      {pg, "SELECT 1; SELECT 2", "more than one statement", 11},
      {lite, "SELECT 1;;", "more than one statement", 10},
      {pg, "SELECT \xC3\xA9; :a", "more than one statement", 11},
      {pg, "SELECT $1", "a parameter is written :name", 8},
      {lite, "SELECT $a", "a parameter is written :name", 8},
      {lite, "SELECT ?", "a parameter is written :name", 8},
      {lite, "SELECT ?1", "a parameter is written :name", 8},
      {lite, "SELECT @a", "a parameter is written :name", 8},
      {pg, "SELECT \0"sv, "NUL", 8},
  };
  for (const Refusal& c : cases) {
    const auto parsed = parse_parameters(c.sql, c.style);
    ASSERT_FALSE(parsed) << c.sql;
    EXPECT_EQ(parsed.error().failure, Failure::statement);
    EXPECT_NE(parsed.error().message.find(c.message), std::string::npos) << c.sql << ": " << parsed.error().message;
    EXPECT_EQ(parsed.error().position, c.position) << c.sql;
  }
}

TEST(Parameters, NamesWithinQuotes) {
  const auto quoted = [](std::string_view sql, PlaceholderStyle style) {
    std::string said;
    const auto parsed = parse_parameters(sql, style);
    if (!parsed) return parsed.error().message;
    for (const auto& one : parsed->quoted) {
      said += std::to_string(one.source_begin) + " " + std::string(one.before) + "<" + one.name + ">" +
              std::string(one.after) + "\n";
    }
    return said;
  };
  for (const auto style : {pg, lite}) {
    EXPECT_EQ(quoted("SELECT ':q'", style), "8 <q>\n");
    EXPECT_EQ(quoted("SELECT '%:q%', \":r_1\"", style), "9 %<q>%\n16 <r_1>\n");
    EXPECT_EQ(quoted("SELECT 'it''s :a and :b'", style), "14 it''s <a> and :b\n21 it''s :a and <b>\n");
    EXPECT_EQ(quoted("SELECT '12:30', 'a::b', 'x:y', ':', ': a', '::q', ':1', :q, a::int -- ':c'", style), "");
    EXPECT_EQ(quoted("SELECT '{\"a\":true}'", style), "12 {\"a\"<true>}\n");
  }
  EXPECT_EQ(quoted("SELECT E'\\':q', E'a'\n':b'", pg), "11 \\'<q>\n22 <b>\n");
  EXPECT_EQ(quoted("SELECT `:q`", lite), "8 <q>\n");
}

TEST(Parameters, RefusesTooMuch) {
  EXPECT_FALSE(parse_parameters("SELECT '" + std::string(statement_max_bytes, 'x') + "'", pg));
  std::string many = "SELECT :p";
  for (int i = 0; i < 1000; ++i) many += ", :p" + std::to_string(i);
  const auto parsed = parse_parameters(many, pg);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->names.size(), 1001u);
  EXPECT_TRUE(parsed->text.ends_with(", $1001"));
}

TEST(Parameters, MapsOffsetsBack) {
  constexpr std::string_view sql = "SELECT :alpha + :b, LIMIT:alpha x";
  const auto parsed = parse_parameters(sql, pg);
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->text, "SELECT $1 + $2, LIMIT $1 x");
  const auto origin = [&](std::string_view token) {
    return sql.substr(parsed->source_offset(static_cast<std::uint32_t>(parsed->text.find(token))));
  };
  EXPECT_TRUE(origin("SELECT").starts_with("SELECT"));
  EXPECT_TRUE(origin("$1").starts_with(":alpha +"));
  EXPECT_TRUE(origin("1 +").starts_with(":alpha +"));
  EXPECT_TRUE(origin("+").starts_with("+ :b"));
  EXPECT_TRUE(origin("$2").starts_with(":b,"));
  EXPECT_TRUE(origin("LIMIT").starts_with("LIMIT:alpha"));
  EXPECT_TRUE(origin("x").starts_with("x"));
  EXPECT_EQ(parsed->source_offset(static_cast<std::uint32_t>(parsed->text.size())), sql.size());
}

TEST(Parameters, CountsCharacters) {
  constexpr std::string_view sql = "a\xC3\xA9\xF0\x9F\x8E\xAC z";
  EXPECT_EQ(character_position(sql, 0), 1u);
  EXPECT_EQ(character_position(sql, 1), 2u);
  EXPECT_EQ(character_position(sql, 3), 3u);
  EXPECT_EQ(character_position(sql, 8), 5u);
  EXPECT_EQ(byte_offset(sql, 1), 0u);
  EXPECT_EQ(byte_offset(sql, 3), 3u);
  EXPECT_EQ(byte_offset(sql, 5), 8u);
  EXPECT_EQ(byte_offset(sql, 99), sql.size());
  EXPECT_EQ(byte_offset(sql, 0), 0u);
}

// A prefix of a statement is either accepted or refused; offsets in an accepted one map back to the source.
TEST(Parameters, EveryPrefix) {
  constexpr std::string_view sql =
      "SELECT :a::int, E'\\'x', 'y''z', \"q\"\"r\", $t$ : $t$, b[1:2] /* /* :n */ */ FROM t -- :c\n WHERE d = :a;";
  for (const auto style : {pg, lite}) {
    for (std::size_t size = 0; size <= sql.size(); ++size) {
      const auto parsed = parse_parameters(sql.substr(0, size), style);
      if (!parsed) {
        EXPECT_FALSE(parsed.error().message.empty());
        EXPECT_LE(parsed.error().position, size + 1);
        continue;
      }
      for (std::uint32_t i = 0; i <= parsed->text.size(); ++i) EXPECT_LE(parsed->source_offset(i), size);
    }
  }
}

TEST(Fits, SaysWhatIsAValueOfAType) {
  struct Case {
    ParameterType type;
    std::vector<std::string_view> values;
    std::vector<std::string_view> others;
  };
  const std::vector<Case> cases{
      {ParameterType::text, {"", "a", "1"}, {}},
      {ParameterType::integer,
       {"0", "-1", "007", "9223372036854775807", "-9223372036854775808"},
       {"", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "9223372036854775808", "true"}},
      {ParameterType::real,
       {"0", "-1.5", "1e3", ".5", "2."},
       {"", "nan", "NaN", "-inf", "infinity", "nan(1)", ".", "1x", " 1", "+1", "1e999", "1,5"}},
      {ParameterType::boolean, {"true", "false", "t", "f", "1", "0"}, {"", "TRUE", "yes", "2", "true "}},
  };
  for (const Case& each : cases) {
    for (const auto value : each.values) EXPECT_TRUE(fits(each.type, value)) << value;
    for (const auto other : each.others) EXPECT_FALSE(fits(each.type, other)) << other;
  }
}

}  // namespace
}  // namespace sluice::sql
