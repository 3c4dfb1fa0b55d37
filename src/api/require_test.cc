#include "api/require.h"

#include <gtest/gtest.h>

#include "http/identity.h"

namespace sluice::api {
namespace {

std::string fault_of(std::string_view text) {
  const auto parsed = parse_requirement(text);
  if (parsed) return "";
  return std::to_string(parsed.error().offset) + " " + parsed.error().message;
}

class RequireTest : public testing::Test {
 public:
  // Whether the requirement holds; "?" if a query is needed, and the status if a value is refused.
  std::string holds(const char* that, std::vector<std::optional<bool>> known = {}) {
    guards = {};
    RequireOptions options;
    options.that = that;
    options.environment = {{"env.TEAM", "red"}};
    guards.add(options, *http::Pattern::parse("/teams/{team}"), declared);
    const auto verdict = guards.judge(exchange, known);
    if (verdict.refusal) return verdict.refusal->status == 403 ? "no" : std::to_string(verdict.refusal->status);
    return verdict.wanted ? "?" + std::to_string(*verdict.wanted) : "yes";
  }
  RequireTest() {
    exchange.attributes.set(
        http::Identity{.claims = http::Claims::parse(
                           R"({"sub":"ada","n":7,"ok":true,"none":null,"roles":["admin",3,null],"app":{"x":"y"}})")});
    request.query = "q=a%20b&broken=%zz";
    request.path_values[0] = "red";
  }
  // Declares the type of a value of the query string.
  void declare(const char* key, sql::ParameterType type, bool trim = false) {
    Source source;
    source.key = key;
    source.type = type;
    source.checked = true;
    source.trim = trim;
    declared.push_back(std::move(source));
  }
  http::Exchange exchange;
  http::Request& request = exchange.request;
  std::vector<Source> declared;
  Guards guards;
};

TEST_F(RequireTest, Values) {
  EXPECT_EQ(holds("eq(claim.sub, 'ada')"), "yes");
  EXPECT_EQ(holds(" eq ( claim.sub , 'Ada' ) "), "no");
  EXPECT_EQ(holds("eq(claim.n, 7)"), "yes");
  EXPECT_EQ(holds("eq(claim.ok, true)"), "yes");
  EXPECT_EQ(holds("eq(claim.app.x, 'y')"), "yes");
  EXPECT_EQ(holds("eq(path.team, 'red')"), "yes");
  EXPECT_EQ(holds("eq(query.q, 'a b')"), "yes");
  EXPECT_EQ(holds("eq('it''s', 'it''s')"), "yes");
  EXPECT_EQ(holds("eq(env.TEAM, path.team)"), "yes");
  EXPECT_EQ(holds("present(env.PATH)"), "no");
  EXPECT_EQ(holds("eq(query.broken, 'a')"), "400");
  EXPECT_EQ(holds("ne(claim.sub, 'bob')"), "yes");
  EXPECT_EQ(holds("in(claim.sub, 'bob', 'ada')"), "yes");
  EXPECT_EQ(holds("in(claim.sub, 'bob', claim.n)"), "no");
}

TEST_F(RequireTest, TypedValuesAreComparedByWhatTheyMean) {
  declare("n", sql::ParameterType::integer);
  declare("r", sql::ParameterType::real);
  declare("b", sql::ParameterType::boolean);
  declare("t", sql::ParameterType::text, true);
  const auto asked = [&](const char* query, const char* that) {
    request.query = query;
    return holds(that);
  };
  EXPECT_EQ(asked("n=007", "ne(query.n, 7)"), "no");
  EXPECT_EQ(asked("n=007", "eq(query.n, claim.n)"), "yes");
  EXPECT_EQ(asked("n=-0", "in(query.n, 5, 0)"), "yes");
  EXPECT_EQ(asked("n=03", "contains(claim.roles, query.n)"), "yes");
  EXPECT_EQ(asked("n=x", "ne(query.n, 7)"), "400");
  EXPECT_EQ(asked("r=1.50", "ne(query.r, 1.5)"), "no");
  EXPECT_EQ(asked("r=15e-1", "eq(query.r, '1.5')"), "yes");
  EXPECT_EQ(asked("r=7.0", "eq(claim.n, query.r)"), "yes");
  EXPECT_EQ(asked("r=1.00000000000000000001", "ne(query.r, 1)"), "400") << "which a double is";
  EXPECT_EQ(asked("r=9007199254740993", "ne(query.r, 1)"), "400");
  EXPECT_EQ(asked("b=1", "ne(query.b, true)"), "no");
  EXPECT_EQ(asked("b=f", "eq(query.b, false)"), "yes");
  EXPECT_EQ(asked("b=t", "eq(query.b, 'x')"), "no");
  EXPECT_EQ(asked("t=+a+", "ne(query.t, 'a')"), "no");
  EXPECT_EQ(asked("m=007", "ne(query.m, 7)"), "yes") << "nothing is said of it";
}

// A claim in another notation may mean the same value to a database, but it is neither equal to the value nor different
// from it.
TEST_F(RequireTest, OtherSpellingsOfAClaimNeitherHoldNorDiffer) {
  declare("n", sql::ParameterType::integer);
  declare("r", sql::ParameterType::real);
  declare("b", sql::ParameterType::boolean);
  declare("h", sql::ParameterType::bytes);
  struct Case {
    const char* query;
    const char* claim;  // as JSON
    const char* equal;
    const char* different;
  };
  const Case cases[] = {
      {"n=2", R"("2")", "yes", "no"},
      {"n=02", R"("2")", "yes", "no"},
      {"n=2", "2", "yes", "no"},
      {"n=-3", R"("-3")", "yes", "no"},
      {"n=2", R"("3")", "no", "yes"},
      {"n=2", R"("2e0")", "no", "no"},
      {"n=2", R"("2E0")", "no", "no"},
      {"n=2", R"("2.0")", "no", "no"},
      {"n=2", R"("20e-1")", "no", "no"},
      {"n=2", R"("2.")", "no", "no"},
      {"n=2", R"(".2e1")", "no", "no"},
      {"n=2", R"("02")", "no", "no"},
      {"n=2", R"("+2")", "no", "no"},
      {"n=2", R"(" 2")", "no", "no"},
      {"n=2", R"("2 ")", "no", "no"},
      {"n=0", R"("-0")", "no", "no"},
      {"n=2", "2.0", "no", "no"},
      {"n=2", "2e0", "no", "no"},
      {"n=2", R"("ada")", "no", "no"},
      {"r=2.5", R"("2.5")", "yes", "no"},
      {"r=25e-1", R"("2.5")", "yes", "no"},
      {"r=2.5", "2.50", "yes", "no"},
      {"r=2", R"("2")", "yes", "no"},
      {"r=0.5", R"("0.5")", "yes", "no"},
      {"r=0.5", R"(".5")", "no", "no"},
      {"r=2", R"("2e0")", "no", "no"},
      {"r=2e0", R"("2e0")", "no", "no"},
      {"r=2.0", R"("2.0")", "no", "no"},
      {"r=2", R"("3")", "no", "yes"},
      {"b=1", R"("true")", "yes", "no"},
      {"b=true", "true", "yes", "no"},
      {"b=f", R"("true")", "no", "yes"},
      {"b=true", R"("t")", "no", "no"},
      {"b=t", R"("t")", "no", "no"},
      {"b=true", R"("1")", "no", "no"},
      {"b=true", "1", "no", "no"},
      {"h=%5Cxab", R"("\\xab")", "yes", "no"},
      {"h=%5CxAB", R"("\\xab")", "yes", "no"},
      {"h=%5Cxab", R"("\\xAB")", "no", "no"},
      {"t=2e0", R"("2e0")", "yes", "no"},
      {"t=2", R"("2e0")", "no", "yes"},
      {"t=2", "2", "yes", "no"},
      {"t=2.0", "2", "no", "no"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.query) + " " + one.claim);
    const std::string claim = one.claim;
    exchange.attributes.set(
        http::Identity{.claims = http::Claims::parse("{\"v\":" + claim + ",\"all\":[null," + claim + "]}")});
    ASSERT_NE(http::claims_of(exchange), nullptr);
    request.query = one.query;
    const std::string value = "query." + std::string(request.query.substr(0, 1));
    const auto asked = [&](const std::string& that) { return holds(that.c_str()); };
    for (const std::string& equal :
         {"eq(claim.v, " + value + ")", "eq(" + value + ", claim.v)", "in(claim.v, 'x', " + value + ")",
          "in(" + value + ", claim.v, 'x')", "contains(claim.all, " + value + ")"}) {
      EXPECT_EQ(asked(equal), one.equal) << equal;
      EXPECT_EQ(asked("not(" + equal + ")"), one.different) << equal;
      EXPECT_EQ(asked("not(not(" + equal + "))"), one.equal) << equal;
      EXPECT_EQ(asked("and(" + equal + ", eq(1, 1))"), one.equal) << equal;
      EXPECT_EQ(asked("or(" + equal + ", eq(1, 2))"), one.equal) << equal;
      EXPECT_EQ(asked("or(" + equal + ", eq(1, 1))"), "yes") << equal;
      EXPECT_EQ(asked("not(and(" + equal + ", eq(1, 2)))"), "yes") << equal;
    }
    EXPECT_EQ(asked("ne(claim.v, " + value + ")"), one.different);
  }
}

TEST_F(RequireTest, TheConfigurationsOwnValuesMayBeSpelledInAnyWay) {
  declare("n", sql::ParameterType::integer);
  declare("r", sql::ParameterType::real);
  request.query = "n=7&r=1.5";
  EXPECT_EQ(holds("eq(query.n, 07)"), "yes");
  EXPECT_EQ(holds("eq(query.r, 1.50)"), "yes");
  EXPECT_EQ(holds("eq(claim.n, 7.0)"), "yes");
  EXPECT_EQ(holds("ne(query.n, 'new')"), "yes");
  EXPECT_EQ(holds("not(contains(claim.roles, 'banned'))"), "yes");
}

TEST_F(RequireTest, AClaimOfADeclaredTypeHasOneSpelling) {
  Source source;
  source.from = From::claim;
  source.key = "sub";
  source.type = sql::ParameterType::integer;
  source.checked = true;
  source.default_text = "0";
  declared.push_back(source);
  const auto of = [&](const char* claims) {
    exchange.attributes.set(http::Identity{.claims = http::Claims::parse(claims)});
    return holds("in(claim.sub, 2, 0)");
  };
  EXPECT_EQ(of(R"({"sub":"2"})"), "yes");
  EXPECT_EQ(of(R"({"sub":2})"), "yes");
  EXPECT_EQ(of(R"({"sub":"02"})"), "no");
  EXPECT_EQ(of(R"({"sub":"2e0"})"), "no");
  EXPECT_EQ(of("{}"), "yes") << "its default";
  exchange.attributes.clear();
  EXPECT_EQ(holds("eq(claim.sub, 0)"), "yes");
}

TEST_F(RequireTest, WhatIsMissingEqualsNothing) {
  EXPECT_EQ(holds("eq(claim.x, '')"), "no");
  EXPECT_EQ(holds("eq(claim.x, claim.y)"), "no");
  EXPECT_EQ(holds("eq(claim.none, claim.none)"), "no");
  EXPECT_EQ(holds("ne(claim.x, 'a')"), "yes");
  EXPECT_EQ(holds("in(claim.x, claim.x, 'null')"), "no");
  EXPECT_EQ(holds("present(claim.none)"), "no");
  EXPECT_EQ(holds("present(claim.sub)"), "yes");
  EXPECT_EQ(holds("present(query.q)"), "yes");
  EXPECT_EQ(holds("present(header.x)"), "no");
  exchange.attributes.clear();
  EXPECT_EQ(holds("eq(claim.sub, 'ada')"), "no");
  EXPECT_EQ(holds("contains(claim.roles, 'admin')"), "no");
}

TEST_F(RequireTest, Lists) {
  EXPECT_EQ(holds("contains(claim.roles, 'admin')"), "yes");
  EXPECT_EQ(holds("contains(claim.roles, 3)"), "yes");
  EXPECT_EQ(holds("contains(claim.roles, 'adm')"), "no");
  EXPECT_EQ(holds("contains(claim.roles, 'null')"), "no");
  EXPECT_EQ(holds("contains(claim.roles, claim.x)"), "no");
  EXPECT_EQ(holds("contains(claim.sub, 'ada')"), "no");  // not a list
}

TEST_F(RequireTest, ScopesAreAListOrWords) {
  for (const char* payload :
       {R"({"scope":"read write 3"})", R"({"scope":["read","write",3]})", R"({"scope":"  write  3 read "})"}) {
    exchange.attributes.set(http::Identity{.claims = http::Claims::parse(payload)});
    EXPECT_EQ(holds("contains(claim.scope, 'read')"), "yes") << payload;
    EXPECT_EQ(holds("contains(claim.scope, 'write')"), "yes") << payload;
    EXPECT_EQ(holds("contains(claim.scope, 3)"), "yes") << payload;
    for (const char* other : {"'rea'", "'ead'", "'READ'", "'read write'", "' '", "''", "4", "claim.scope"}) {
      EXPECT_EQ(holds(("contains(claim.scope, " + std::string(other) + ")").c_str()), "no") << payload << other;
    }
    EXPECT_EQ(holds("contains(claim.scp, 'read')"), "no");
  }
  exchange.attributes.set(http::Identity{
      .claims = http::Claims::parse(R"({"scope":"","scp":"read","app":{"scope":"read x"},"name":"a read"})")});
  EXPECT_EQ(holds("contains(claim.scope, '')"), "no");
  EXPECT_EQ(holds("contains(claim.scp, 'read')"), "yes");
  EXPECT_EQ(holds("contains(claim.app.scope, 'read')"), "no");
  EXPECT_EQ(holds("contains(claim.name, 'read')"), "no");
}

TEST_F(RequireTest, OnlyQueriesThatDecideAreAsked) {
  const char* const exists = "exists(SELECT 1)";
  EXPECT_EQ(holds(exists), "?0");
  EXPECT_EQ(holds(exists, {true}), "yes");
  EXPECT_EQ(holds(exists, {false}), "no");
  EXPECT_EQ(holds("not(exists(SELECT 1))", {false}), "yes");
  EXPECT_EQ(holds("and(exists(SELECT 1), eq(1, 2))"), "no");
  EXPECT_EQ(holds("or(exists(SELECT 1), eq(1, 1))"), "yes");
  EXPECT_EQ(holds("or(exists(SELECT 1), exists(SELECT 2))"), "?0");
  EXPECT_EQ(holds("or(exists(SELECT 1), exists(SELECT 2))", {false, std::nullopt}), "?1");
  EXPECT_EQ(holds("or(exists(SELECT 1), exists(SELECT 2))", {true, std::nullopt}), "yes");
  EXPECT_EQ(holds("and(eq(1, 1), not(exists(SELECT 1)))"), "?0");
  EXPECT_EQ(holds("not(and(exists(SELECT 1), eq(1, 2)))"), "yes");
}

TEST_F(RequireTest, AllMustHoldAndTheFirstThatDoesNotAnswers) {
  Guards guards;
  const auto pattern = *http::Pattern::parse("/teams/{team}");
  RequireOptions options;
  options.that = "exists(SELECT 1)";
  guards.add(options, pattern);
  options.that = "eq(claim.sub, 'bob')";
  options.status = 404;
  guards.add(options, pattern);
  const auto verdict = guards.judge(exchange, {});
  ASSERT_TRUE(verdict.refusal);
  EXPECT_EQ(verdict.refusal->status, 404);  // without a query to the database
  EXPECT_FALSE(verdict.wanted);
}

TEST(ParseRequirement, ClaimsInSqlAreParametersOfTheSameLength) {
  const std::string sql =
      "SELECT 1 FROM m WHERE a = claim.sub AND 'claim.x)' <> \"claim.y\" AND b.claim.z = (claim.app.id)";
  const auto parsed = parse_requirement("exists(" + sql + ")");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->offset, 7u);
  EXPECT_EQ(parsed->sql,
            "SELECT 1 FROM m WHERE a = :laim_sub AND 'claim.x)' <> \"claim.y\" AND b.claim.z = (:laim_app_id)");
  EXPECT_EQ(parsed->claims,
            (std::vector<std::pair<std::string, std::string>>{{"laim_sub", "sub"}, {"laim_app_id", "app.id"}}));
}

TEST(ParseRequirement, FaultsHaveTheirPlace) {
  const std::string names = " an expression begins with eq, ne, in, contains, present, and, or, not or exists";
  EXPECT_EQ(fault_of(""), "0" + names);
  EXPECT_EQ(fault_of("  eqq(1, 2)"), "2" + names);
  EXPECT_EQ(fault_of("and(eq(1, 2), 'x')"), "14" + names);
  EXPECT_EQ(fault_of("eq"), "2 \"(\" is missing behind \"eq\"");
  EXPECT_EQ(fault_of("eq(1, 2"), "7 \",\" or \")\" is missing");
  EXPECT_EQ(fault_of("eq(1, 2) x"), "9 nothing may follow the expression");
  EXPECT_EQ(fault_of("eq(1)"), "0 \"eq\" takes 2");
  EXPECT_EQ(fault_of("in(1)"), "0 \"in\" takes 2 or more");
  EXPECT_EQ(fault_of("and()"), "0 \"and\" takes 1 or more");
  EXPECT_EQ(fault_of("not(eq(1,1), eq(1,1))"), "0 \"not\" takes 1");
  EXPECT_EQ(fault_of("eq(1, 'a"), "6 a text without its end");
  EXPECT_EQ(fault_of("eq(1, )"), "6 a value is missing");
  EXPECT_EQ(fault_of("eq(1, body.x)"), "6 the body is not read before the request is allowed");
  EXPECT_EQ(
      fault_of("eq(1, admin)"),
      "6 a value must begin with path, query, header, cookie, claim, env, request, body or upload, or is 'text', a "
      "number, true or false");
  EXPECT_EQ(fault_of("contains(query.x, 1)"), "9 \"contains\" looks into a list, which only a claim is");
  EXPECT_EQ(fault_of("exists()"), "7 a statement is missing");
  EXPECT_EQ(fault_of("exists(SELECT (1)"), "7 \")\" is missing");
  EXPECT_EQ(fault_of("exists(SELECT 'a)"), "14 a quote without its end");
  EXPECT_EQ(fault_of("exists(SELECT 1 -- )\n)"), "16 no comments here");
  EXPECT_EQ(fault_of("exists(SELECT 1; SELECT 2)"), "15 no \";\" here");
  EXPECT_EQ(fault_of("exists(SELECT claim.a.b, claim.a_b)"), "25 too much like the claim \"a.b\"");
  std::string deep = "eq(1, 1)";
  for (std::size_t i = 0; i + 1 < deepest_requirement; ++i) deep = "not(" + deep + ")";
  EXPECT_EQ(fault_of(deep), "");
  EXPECT_EQ(fault_of("not(" + deep + ")"),
            std::to_string(4 * deepest_requirement) + " too many expressions within each other");
}

}  // namespace
}  // namespace sluice::api
