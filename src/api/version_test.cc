#include "api/version.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

std::shared_ptr<const sql::Type> type_of(sql::Form form) {
  auto type = std::make_shared<sql::Type>();
  type->form = form;
  return type;
}

const std::vector<sql::Column> columns{{"id", type_of(sql::Form::number)}, {"rev", type_of(sql::Form::dynamic)}};

sql::Field field(const char* text, sql::Form form = sql::Form::text) {
  return {text, text == nullptr ? 0 : static_cast<std::uint32_t>(std::string_view(text).size()), form};
}

std::optional<std::string> state_of(std::string_view version, std::vector<sql::Field> row,
                                    std::span<const sql::Column> of = columns) {
  return Version::of(version, columns)->state({of, row, 1, true});
}

std::string column_state(const char* text) { return state_of("rev", {field("1"), field(text)}).value_or("none"); }

TEST(Version, AColumnsTextIsTheState) {
  EXPECT_EQ(column_state("7"), "7");
  EXPECT_EQ(column_state(""), "");
  EXPECT_EQ(column_state("2026-11-21 18:48:34.5+00"), "2026-11-21%2018:48:34.5+00");
  EXPECT_EQ(column_state("a;b,\"c\"%\\\n\xc3\x9f"), "a%3Bb%2C%22c%22%25%5C%0A%C3%9F");
  EXPECT_EQ(column_state(nullptr), "none") << "NULL is no state";
  EXPECT_FALSE(Version::of("revision", columns));
}

TEST(Version, ALongOneIsHashed) {
  const std::string longest(128, 'a');
  EXPECT_EQ(column_state(longest.c_str()), longest);
  const std::string hashed = column_state((longest + "a").c_str());
  EXPECT_EQ(hashed.size(), 34u);
  EXPECT_TRUE(hashed.starts_with("%~"));
  EXPECT_NE(column_state((longest + "b").c_str()), hashed);
  EXPECT_NE(column_state(hashed.c_str()), hashed);
}

TEST(Version, TheWholeRowIsHashedSoThatNoTwoRowsAreOne) {
  const auto hash = [](std::vector<sql::Field> row) { return *state_of("*", std::move(row)); };
  const std::string one = hash({field("1"), field("a")});
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(hash({field("1"), field("a")}), one);
  EXPECT_NE(hash({field("1a"), field("")}), one);
  EXPECT_NE(hash({field("1"), field("A")}), one);
  EXPECT_NE(hash({field("1"), field(nullptr)}), hash({field("1"), field("")}));
  EXPECT_NE(hash({field("1"), field("2", sql::Form::number)}), hash({field("1"), field("2")})) << "2 is not '2'";
  const std::vector<sql::Column> renamed{{"id", columns[0].type}, {"revision", columns[1].type}};
  EXPECT_NE(*state_of("*", {field("1"), field("a")}, renamed), one);
}

TEST(Version, TheColumnIsFoundAgainWhereTheTableHasChanged) {
  const std::vector<sql::Column> moved{{"rev", columns[1].type}, {"id", columns[0].type}};
  EXPECT_EQ(state_of("rev", {field("7"), field("1")}, moved), "7");
  const std::vector<sql::Column> gone{{"id", columns[0].type}};
  EXPECT_EQ(state_of("rev", {field("1")}, gone), std::nullopt);
}

TEST(Version, RepresentationsHaveTagsOfTheirOwn) {
  using sql::Format;
  using sql::Header;
  EXPECT_EQ(tag_of("7", Format::json, Header::present), "\"7\"");
  EXPECT_EQ(tag_of("7", Format::ndjson, Header::present), "\"7;ndjson\"");
  EXPECT_EQ(tag_of("7", Format::csv, Header::present), "\"7;csv\"");
  EXPECT_EQ(tag_of("7", Format::csv, Header::absent), "\"7;csv-bare\"");
}

TEST(Version, OfWhatAWriteReturns) {
  const auto whole = *Version::of("*", columns);
  const auto one = *Version::of("rev", columns);
  EXPECT_TRUE(returned_version(whole, "*", columns, columns));
  EXPECT_FALSE(returned_version(whole, "*", columns, std::span(columns).first(1)));
  EXPECT_TRUE(returned_version(one, "rev", columns, std::span(columns).last(1)));
  EXPECT_FALSE(returned_version(one, "rev", columns, std::span(columns).first(1)));
}

TEST(Version, TheLockingStatementIsOne) {
  EXPECT_EQ(locking_statement("SELECT 1 -- a comment"),
            "SELECT 1 FROM (SELECT 1 -- a comment\n) AS sluice_current FOR UPDATE");
  EXPECT_EQ(locking_statement("SELECT 1 ;\n"), "SELECT 1 FROM (SELECT 1\n) AS sluice_current FOR UPDATE");
}

using Verdict = Conditions::Verdict;

struct Asked {
  explicit Asked(std::vector<http::Field> given) : fields(std::move(given)) { request.fields = fields; }
  std::vector<http::Field> fields;
  http::Request request;
  Conditions conditions() const { return Conditions(request); }
};

TEST(Conditions, IfMatchIsStrong) {
  const auto judge = [](std::string_view value, std::optional<std::string> state) {
    return Asked({{"if-MATCH", value}}).conditions().judge(state);
  };
  EXPECT_EQ(judge("\"7\"", "7"), Verdict::proceed);
  EXPECT_EQ(judge("\"6\", \"7;csv;gzip\"", "7"), Verdict::proceed) << "another representation of the state";
  EXPECT_EQ(judge("*", "7"), Verdict::proceed);
  EXPECT_EQ(judge("*", std::nullopt), Verdict::proceed);
  EXPECT_EQ(judge("\"\"", ""), Verdict::proceed);
  for (const char* other : {"W/\"7\"", "\"6\"", "\"77\"", "\"\"", "7", "\"7", ""}) {
    EXPECT_EQ(judge(other, "7"), Verdict::stale) << other;
  }
  EXPECT_EQ(judge("\"\"", std::nullopt), Verdict::stale) << "NULL is no state";
  EXPECT_EQ(Asked({{"If-Match", "*"}}).conditions().judge_nothing(), Verdict::stale);
  const Asked both({{"If-Match", "\"6\""}, {"If-Match", "\"7\""}});
  EXPECT_EQ(both.conditions().judge("7"), Verdict::proceed);
}

TEST(Conditions, AnyBesideTagsIsMalformed) {
  for (const char* name : {"If-Match", "If-None-Match"}) {
    const Asked asked({{name, "\"7\", *"}});
    EXPECT_EQ(asked.conditions().judge("7"), Verdict::malformed) << name;
    EXPECT_EQ(asked.conditions().judge("7", "\"7\""), Verdict::malformed) << name;
    EXPECT_EQ(asked.conditions().judge_nothing(), Verdict::malformed) << name;
  }
}

TEST(Conditions, IfNoneMatchIsWeak) {
  const auto judge = [](std::string_view value, std::optional<std::string> state) {
    return Asked({{"If-None-Match", value}}).conditions().judge(state);
  };
  for (const char* known : {"*", "\"7\"", "W/\"7\"", "\"6\",\"7;csv\""}) EXPECT_EQ(judge(known, "7"), Verdict::known);
  EXPECT_EQ(judge("\"6\"", "7"), Verdict::proceed);
  EXPECT_EQ(judge("*", std::nullopt), Verdict::known);
  const Asked none({{"If-None-Match", "*"}});
  EXPECT_EQ(none.conditions().judge_nothing(), Verdict::proceed);
  EXPECT_TRUE(none.conditions().wants_nothing());
  EXPECT_TRUE(Asked({}).conditions().none());
}

TEST(Conditions, ARepresentationIsKnownByItsOwnTag) {
  const auto known = [](std::string_view value, std::string_view tag, std::string_view codings = {}) {
    const Asked asked({{"If-None-Match", value}, {"Accept-Encoding", codings}});
    return std::string(asked.conditions().known_tag(tag));
  };
  EXPECT_EQ(known("\"7;csv\", W/\"7\"", "\"7\""), "\"7\"");
  EXPECT_EQ(known("\"7\"", "\"7;csv\""), "");
  EXPECT_EQ(known("\"7;csv\"", "\"7\""), "");
  EXPECT_EQ(known("\"7;csv\"", "\"7;csv-bare\""), "");
  EXPECT_EQ(known("\"7;csv-bare\"", "\"7;csv\""), "");
  EXPECT_EQ(known("\"7;gzip\"", "\"7\"", "br, gzip"), "\"7;gzip\"");
  EXPECT_EQ(known("\"7;gzip\"", "\"7\"", "br"), "") << "the client could not read what it has";
  const Asked anything({{"If-None-Match", "*"}});
  EXPECT_EQ(anything.conditions().judge("7", "\"7\""), Verdict::known);
}

}  // namespace
}  // namespace sluice::api
