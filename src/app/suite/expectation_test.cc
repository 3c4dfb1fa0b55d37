#include "app/suite/expectation.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

// An expectation as JSON text.
Json expectation(std::string_view text) {
  config::Value value;
  value.kind = config::Value::Kind::string;
  value.text = text;
  std::vector<config::Diagnostic> errors;
  Json result = json_of(value, Side::expectation, config::Source("x", std::string(text)), errors);
  for (const auto& error : errors) ADD_FAILURE() << error.message;
  return result;
}

// The differences, one per line.
std::string differences(std::string_view expected, std::string_view got, Match match = Match::subset,
                        Order order = Order::same) {
  const auto parsed = parse_json(got);
  if (!parsed) return "not JSON";
  std::string text;
  for (const Difference& one : compare(expectation(expected), *parsed, match, order, "body")) {
    text += one.path + ": " + one.expected + " / " + one.got + "\n";
  }
  return text;
}

TEST(Expectation, ASubsetMayHaveMoreMembersAndNoMoreItems) {
  EXPECT_EQ(differences(R"({"a": 1})", R"({"a": 1.0, "b": 2})"), "");
  EXPECT_EQ(differences(R"({"a": {"b": [1, {"c": 2}]}})", R"({"a": {"b": [1, {"c": 2, "d": 3}], "x": 1}})"), "");
  EXPECT_EQ(differences(R"({"a": 1, "b": {"c": "x"}})", R"({"a": "1", "b": {"c": "y"}})"),
            "body.a: 1 / \"1\"\nbody.b.c: \"x\" / \"y\"\n");
  EXPECT_EQ(differences(R"({"a": 1})", "{}"), "body.a: 1 / nothing\n");
  EXPECT_EQ(differences("[1]", "[1, 2]"), "body.1: nothing / 2\n");
  EXPECT_EQ(differences("[1, 2]", "[1]"), "body.1: 2 / nothing\n");
  EXPECT_EQ(differences("{}", "[]"), "body: {} / []\n");
  EXPECT_EQ(differences("null", "false"), "body: null / false\n");
}

TEST(Expectation, ExactAllowsNothingElse) {
  EXPECT_EQ(differences(R"({"a": 1})", R"({"a": 1})", Match::exact), "");
  EXPECT_EQ(differences(R"([{"a": {}}])", R"([{"a": {"b": 1}, "c": 2}])", Match::exact),
            "body.0.a.b: nothing / 1\nbody.0.c: nothing / 2\n");
}

TEST(Expectation, BigIntegersAreExact) {
  EXPECT_EQ(differences("9007199254740993", "9007199254740993.0"), "");
  EXPECT_EQ(differences("9007199254740993", "9007199254740992"), "body: 9007199254740993 / 9007199254740992\n");
}

TEST(Expectation, Markers) {
  const std::string_view got = R"({"n": null, "b": true, "i": 1, "s": "alien 3", "a": [], "o": {}, "t": "#x"})";
  EXPECT_EQ(
      differences(R"({"n": "#null", "b": "#boolean", "i": "#number", "s": "#string", "a": "#array", "o": "#object",
                            "z": "#absent", "t": "##x"})",
                  got),
      "");
  EXPECT_EQ(differences(R"({"n": "#any", "s": "#matches ^[a-z]+ \\d$"})", got), "");
  EXPECT_EQ(differences(R"({"s": "#contains ien"})", got), "");
  EXPECT_EQ(differences(R"({"z": "#any"})", got), "body.z: #any / nothing\n");
  EXPECT_EQ(differences(R"({"n": "#absent"})", got), "body.n: #absent / null\n");
  EXPECT_EQ(differences(R"({"i": "#string"})", got), "body.i: #string / 1\n");
  EXPECT_EQ(differences(R"({"i": "#matches 1"})", got), "body.i: #matches 1 / 1\n");
  EXPECT_EQ(differences(R"({"s": "#contains x"})", got), "body.s: #contains x / \"alien 3\"\n");
  EXPECT_EQ(differences(R"({"s": "#matches ^3"})", got), "body.s: #matches ^3 / \"alien 3\"\n");
}

TEST(Expectation, MarkersThatAreNone) {
  const auto complaint = [](std::string_view text, Side side = Side::expectation) {
    config::Value value;
    value.kind = config::Value::Kind::list;
    value.items.emplace_back();
    value.items[0].kind = config::Value::Kind::string;
    value.items[0].text = text;
    std::vector<config::Diagnostic> errors;
    const Json result = json_of(value, side, config::Source("x", ""), errors);
    return errors.empty() ? print_json(result) : errors[0].message + " (" + errors[0].hint + ")";
  };
  EXPECT_EQ(complaint("#nmber"), "there is no marker #nmber (did you mean \"number\"?)");
  EXPECT_EQ(complaint("#1 film"), "there is no marker #1 (\"##...\" is a string that begins with #)");
  EXPECT_EQ(complaint("#matches"), "#matches needs a text behind it ()");
  EXPECT_EQ(complaint("#number 1"), "#number has nothing behind it (\"##...\" is a string that begins with #)");
  EXPECT_TRUE(complaint("#matches (").starts_with("the pattern is wrong: ")) << complaint("#matches (");
  EXPECT_EQ(complaint("#any", Side::request),
            "#any is for what is expected (\"##...\" is a string that begins with #)");
  EXPECT_EQ(complaint("#null", Side::request), "[null]");
  EXPECT_EQ(complaint("##a", Side::request), "[\"#a\"]");
}

TEST(Expectation, RowsInAnyOrder) {
  EXPECT_EQ(differences("[1, 2, 2]", "[2, 1, 2]", Match::exact, Order::any), "");
  EXPECT_EQ(differences("[1, 2, 2]", "[1, 1, 2]", Match::exact, Order::any),
            "body: 2 / no such row\nbody: no such row / 1\n");
  // "#any" must not take the only row that another expected row matches.
  EXPECT_EQ(differences(R"(["#any", "a"])", R"(["a", "b"])", Match::subset, Order::any), "");
  EXPECT_EQ(differences("[]", "[1]", Match::subset, Order::any), "body: no such row / 1\n");
}

TEST(Expectation, Tables) {
  const auto rows = [](std::string_view text) {
    const auto parsed = parse_table(text);
    return parsed ? print_json(*parsed) : std::to_string(parsed.error().offset.value_or(0)) + ": " + parsed.error().message;
  };
  EXPECT_EQ(rows("\nid, slug\n1, \"a, b\"\n\n 2 , null\n"), R"([{"id": 1, "slug": "a, b"}, {"id": 2, "slug": null}])");
  EXPECT_EQ(rows("\"a b\",\"c\"\r\n{\"x\": [1]},true\r\n"), R"([{"a b": {"x": [1]}, "c": true}])");
  EXPECT_EQ(rows("id"), "[]");
  EXPECT_EQ(rows(" \n"), "0: a table begins with a line of its columns' names");
  EXPECT_EQ(rows("a, b\n1"), "5: this row has 1 values, and there are 2 columns");
  EXPECT_EQ(rows("a, a\n"), "0: the column \"a\" comes twice");
  EXPECT_EQ(rows("a,\n"), "0: a column without a name");
  EXPECT_EQ(rows("a\nx"), "2: a value is expected");
  EXPECT_EQ(rows("a, b\n1, x"), "8: a value is expected");
}

TEST(Expectation, HeadersAndTexts) {
  std::vector<config::Diagnostic> errors;
  const Json got = Json::string("text/csv");
  EXPECT_TRUE(meets(text_expectation({"text/csv"}, errors), &got));
  EXPECT_FALSE(meets(text_expectation({"text"}, errors), &got));
  EXPECT_FALSE(meets(text_expectation({"text/csv"}, errors), nullptr));
  EXPECT_TRUE(meets(text_expectation({"#matches ^text/"}, errors), &got));
  EXPECT_TRUE(meets(text_expectation({"#absent"}, errors), nullptr));
  EXPECT_FALSE(meets(text_expectation({"#absent"}, errors), &got));
  EXPECT_TRUE(errors.empty());
}

}  // namespace
}  // namespace sluice::app::suite
