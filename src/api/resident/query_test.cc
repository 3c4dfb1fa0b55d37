#include "api/resident/query.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"
#include "api/resident/selection.h"

namespace sluice::api::resident {
namespace {

using Rows = std::vector<std::uint32_t>;

std::shared_ptr<const Table> films() {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("title", sql::Form::text, 25),
                 column_of("rating", sql::Form::number, 1700), array_of("genres", sql::Form::text),
                 column_of("seen", sql::Form::boolean, 16), column_of("day", sql::Form::text, 1082),
                 column_of("note", sql::Form::text, 25), column_of("more", sql::Form::json, 3802)});
  rows.row({"10", "Alien", "8.5", "{horror,sf}", "t", "1979-05-25", "x", "[\"a b\", 7]"})
      .row({"11", "Brazil", "7.90", "{sf}", "f", "1985-02-20", "y", "\"one\""})
      .row({"12", "a,b", nullptr, "{}", nullptr, nullptr, nullptr, "{}"})
      .row({"13", "gte.10", "8.50", nullptr, "t", "1979-05-25", "", nullptr})
      .row({"14", "say \"hi\\\"", "-1", "{horror,horror}", "f", "2026-11-22", "z", "[]"});
  return table_of({.key = "id", .index = {"title", "rating", "genres", "seen", "day", "more"}}, rows);
}

// ---- Accepted queries ----

Rows found(const Table& table, std::string_view query) {
  const auto parsed = parse_query(table, query);
  EXPECT_TRUE(parsed) << query << ": " << (parsed ? "" : parsed.error().detail);
  if (!parsed) return {999};
  return rows_of(select(table, *parsed));
}

TEST(ResidentQuery, EachOperator) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("id=11"), (Rows{1}));
  EXPECT_EQ(rows("id=eq.11"), (Rows{1}));
  EXPECT_EQ(rows("id=99"), (Rows{}));
  EXPECT_EQ(rows("id=gt.12"), (Rows{3, 4}));
  EXPECT_EQ(rows("id=gte.12"), (Rows{2, 3, 4}));
  EXPECT_EQ(rows("id=lt.12"), (Rows{0, 1}));
  EXPECT_EQ(rows("id=lte.12"), (Rows{0, 1, 2}));
  EXPECT_EQ(rows("id=gt.14"), (Rows{}));
  EXPECT_EQ(rows("id=lt.-5"), (Rows{}));
  EXPECT_EQ(rows("rating=8.500"), (Rows{0, 3}));
  EXPECT_EQ(rows("rating=gte.-1e0"), (Rows{0, 1, 3, 4}));  // NULL is in no range
  EXPECT_EQ(rows("rating=lt.8"), (Rows{1, 4}));
  EXPECT_EQ(rows("rating=is.null"), (Rows{2}));
  EXPECT_EQ(rows("rating=is.not_null"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(rows("genres=sf"), (Rows{0, 1}));
  EXPECT_EQ(rows("genres=horror"), (Rows{0, 4}));
  EXPECT_EQ(rows("genres=in.(horror,sf)"), (Rows{0, 1, 4}));
  EXPECT_EQ(rows("genres=is.null"), (Rows{3}));
  EXPECT_EQ(rows("genres=is.not_null"), (Rows{0, 1, 2, 4}));
  EXPECT_EQ(rows("seen=true"), (Rows{0, 3}));
  EXPECT_EQ(rows("seen=f"), (Rows{1, 4}));
  EXPECT_EQ(rows("day=lte.1985-02-20"), (Rows{0, 1, 3}));
  EXPECT_EQ(rows("more=a+b"), (Rows{0}));
  EXPECT_EQ(rows("more=in.(7,one)"), (Rows{0, 1}));
  EXPECT_EQ(rows("more=is.null"), (Rows{3}));
  EXPECT_EQ(rows("title=gt.Brazil&title=lt.b"), (Rows{2}));
}

TEST(ResidentQuery, ValuesThatLookLikeSomethingElse) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("title=eq.gte.10"), (Rows{3}));
  EXPECT_EQ(rows("title=gte.10"), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows("title=a%2Cb"), (Rows{2}));
  EXPECT_EQ(rows("title=a,b"), (Rows{2}));
  EXPECT_EQ(rows("titl%65=Alien"), (Rows{0}));
  EXPECT_EQ(rows("title=say+%22hi%5C%22"), (Rows{4}));
  EXPECT_EQ(rows("title=eq.like.Alien"), (Rows{}));
  EXPECT_EQ(rows("title=not.Alien"), (Rows{}));  // no operator follows, so it is the value
}

// A row without a value meets only is.null.
TEST(ResidentQuery, NegatedConditions) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("id=neq.11"), (Rows{0, 2, 3, 4}));
  EXPECT_EQ(rows("id=neq.99"), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows("id=not.neq.11"), (Rows{1}));
  EXPECT_EQ(rows("rating=neq.8.5"), (Rows{1, 4}));
  EXPECT_EQ(rows("rating=not.eq.8.5"), (Rows{1, 4}));
  EXPECT_EQ(rows("rating=not.gte.8"), (Rows{1, 4}));
  EXPECT_EQ(rows("rating=not.gt.8.5"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(rows("rating=not.lt.8"), (Rows{0, 3}));
  EXPECT_EQ(rows("rating=not.in.(8.5,-1)"), (Rows{1}));
  EXPECT_EQ(rows("rating=not.in.()"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(rows("rating=not.is.null"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(rows("rating=not.is.not_null"), (Rows{2}));
  EXPECT_EQ(rows("title=neq.Alien&id=lt.13"), (Rows{1, 2}));
  // None of the values of a row.
  EXPECT_EQ(rows("genres=neq.sf"), (Rows{2, 4}));
  EXPECT_EQ(rows("genres=not.in.(sf,horror)"), (Rows{2}));
  EXPECT_EQ(rows("genres=neq.sf&id=in.(10,13,14)"), (Rows{4}));
  EXPECT_EQ(rows("genres=not.in.(sf,x)&id=in.(10,13,14)"), (Rows{4}));
  EXPECT_EQ(rows("more=neq.one"), (Rows{0, 2, 4}));
}

TEST(ResidentQuery, Booleans) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("seen=is.true"), (Rows{0, 3}));
  EXPECT_EQ(rows("seen=is.false"), (Rows{1, 4}));
  EXPECT_EQ(rows("seen=neq.true"), (Rows{1, 4}));
  // Without a value, `is.true` is false, not unknown.
  EXPECT_EQ(rows("seen=not.is.true"), (Rows{1, 2, 4}));
  EXPECT_EQ(rows("id=lt.13&seen=not.is.true"), (Rows{1, 2}));
}

TEST(ResidentQuery, Patterns) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("title=like.A*"), (Rows{0}));
  EXPECT_EQ(rows("title=like.a*"), (Rows{2}));
  EXPECT_EQ(rows("title=like.*i*"), (Rows{0, 1, 4}));
  EXPECT_EQ(rows("title=like.A*n"), (Rows{0}));
  EXPECT_EQ(rows("title=like.A*m"), (Rows{}));
  EXPECT_EQ(rows("title=like.Alien"), (Rows{0}));
  EXPECT_EQ(rows("title=like.Alie"), (Rows{}));
  EXPECT_EQ(rows("title=like.*"), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows("title=not.like.*i*"), (Rows{2, 3}));
  EXPECT_EQ(rows("title=not.like.A*"), (Rows{1, 2, 3, 4}));
  EXPECT_EQ(rows("title=like.*i*&id=11"), (Rows{1}));
  EXPECT_EQ(rows("title=not.like.*i*&id=in.(11,12)"), (Rows{2}));
  EXPECT_EQ(rows("genres=like.*o*"), (Rows{0, 4}));
  EXPECT_EQ(rows("genres=not.like.*o*"), (Rows{1, 2}));
  EXPECT_EQ(rows("genres=like.s*&id=lt.12"), (Rows{0, 1}));
  EXPECT_EQ(rows("more=like.*+b"), (Rows{0}));
}

TEST(ResidentQuery, Groups) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("or=(id.eq.11,rating.gt.8)"), (Rows{0, 1, 3}));
  EXPECT_EQ(rows("or=(id.eq.99)"), (Rows{}));
  EXPECT_EQ(rows("and=(rating.gt.8,seen.is.true,id.neq.10)"), (Rows{3}));
  EXPECT_EQ(rows("not.or=(id.eq.11,rating.gt.8)"), (Rows{4}));  // of row 2, nothing is known
  EXPECT_EQ(rows("not.and=(id.gt.11,rating.gt.8)"), (Rows{0, 1, 4}));
  EXPECT_EQ(rows("or=(id.lt.11,and(rating.not.lt.8.5,not.or(id.eq.10,day.is.null)))"), (Rows{0, 3}));
  EXPECT_EQ(rows("or=(genres.eq.sf,day.is.null)&id=gt.10"), (Rows{1, 2}));
  EXPECT_EQ(rows("id=in.(10,12,14)&or=(genres.neq.sf,and(seen.is.true,title.like.*lie*))"), (Rows{0, 2, 4}));
  EXPECT_EQ(rows("or=(title.eq.\"a,b\",title.in.(Brazil,\"x)\"))"), (Rows{1, 2}));
  EXPECT_EQ(rows("or=(seen.not.is.true,id.eq.10)&sort=-id&limit=2"), (Rows{4, 2}));
}

// A SQLite column without a declared type may contain the text 007 as well as the number 7.
TEST(ResidentQuery, TextsThatLookLikeNumbers) {
  TestRows rows({column_of("id", sql::Form::number, 23), sqlite_column("any", "")});
  rows.row({"1", TestValue("007", sql::Form::text)})
      .row({"2", TestValue("7", sql::Form::number)})
      .row({"3", TestValue("7", sql::Form::text)});
  const auto table = table_of({.key = "id", .index = {"any"}}, rows);
  EXPECT_EQ(found(*table, "any=7"), (Rows{1, 2}));
  EXPECT_EQ(found(*table, "any=007"), (Rows{0, 1}));
  EXPECT_EQ(found(*table, "any=in.(7.0)"), (Rows{1}));
  EXPECT_EQ(found(*table, "any=in.(007,7)"), (Rows{0, 1, 2}));
  EXPECT_EQ(found(*table, "any=neq.7"), (Rows{0}));
  EXPECT_EQ(found(*table, "any=like.*7"), (Rows{0, 2}));  // texts alone
  EXPECT_EQ(found(*table, "any=not.like.0*"), (Rows{1, 2}));
}

// Other notations are read as PostgreSQL reads them.
TEST(ResidentQuery, TimesAndAddressesInOtherSpellings) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("at", sql::Form::text, 1083),
                 column_of("mac", sql::Form::text, 829)});
  rows.row({"1", "12:30:00", "08:00:2b:01:02:03"}).row({"2", "12:30:00.5", nullptr}).row({"3", "01:00:00", nullptr});
  const auto table = table_of({.key = "id", .index = {"at", "mac"}}, rows);
  EXPECT_EQ(found(*table, "at=12:30"), (Rows{0}));
  EXPECT_EQ(found(*table, "at=12:30:00.50"), (Rows{1}));
  EXPECT_EQ(found(*table, "at=lte.12:30"), (Rows{0, 2}));
  EXPECT_EQ(found(*table, "at=gt.12:30"), (Rows{1}));
  for (const char* const mac : {"08:00:2B:01:02:03", "08-00-2b-01-02-03", "0800.2b01.0203", "08002b010203"}) {
    EXPECT_EQ(found(*table, std::string("mac=") + mac), (Rows{0})) << mac;
  }
  for (const char* const wrong :
       {"at=noon", "at=12", "at=25:00", "mac=08", "mac=08:00:2b:01:02:0g", "mac=08002b01020304"}) {
    EXPECT_FALSE(parse_query(*table, wrong)) << wrong;
  }
}

TEST(ResidentQuery, Lists) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("id=in.(14,10,99,10)"), (Rows{0, 4}));
  EXPECT_EQ(rows("id=in.(10)"), (Rows{0}));
  EXPECT_EQ(rows("id=in.(98,99)"), (Rows{}));
  EXPECT_EQ(rows("id=in.()"), (Rows{}));
  EXPECT_EQ(rows("title=in.(\"a,b\",Alien)"), (Rows{0, 2}));
  EXPECT_EQ(rows(R"(title=in.("say \"hi\\\""))"), (Rows{4}));
  EXPECT_EQ(rows("title=in.(\"Al\\ien\")"), (Rows{0}));
  EXPECT_EQ(rows("title=in.(,Alien)"), (Rows{0}));
  EXPECT_EQ(rows("title=in.(\"\")"), (Rows{}));
  EXPECT_EQ(rows("rating=in.(8.5,7.9,8.50)"), (Rows{0, 1, 3}));
}

TEST(ResidentQuery, ConditionsHoldTogether) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("genres=horror&genres=sf"), (Rows{0}));
  EXPECT_EQ(rows("id=gt.10&id=lt.13"), (Rows{1, 2}));
  EXPECT_EQ(rows("id=10&id=11"), (Rows{}));
  EXPECT_EQ(rows("seen=t&rating=8.5&day=1979-05-25&id=is.not_null"), (Rows{0, 3}));
  EXPECT_EQ(rows("&&seen=t&&"), (Rows{0, 3}));
  EXPECT_EQ(rows("id=99&seen=t"), (Rows{}));
}

TEST(ResidentQuery, Order) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows(""), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows("sort=-id"), (Rows{4, 3, 2, 1, 0}));
  EXPECT_EQ(rows("sort=rating"), (Rows{4, 1, 0, 3, 2}));   // NULL last; equal values in the order of the table
  EXPECT_EQ(rows("sort=-rating"), (Rows{2, 0, 3, 1, 4}));  // NULL first
  EXPECT_EQ(rows("sort=rating,-id"), (Rows{4, 1, 3, 0, 2}));
  EXPECT_EQ(rows("sort=seen,-title"), (Rows{4, 1, 3, 0, 2}));
  EXPECT_EQ(rows("sort=-title&genres=horror"), (Rows{4, 0}));
}

TEST(ResidentQuery, LimitAndOffset) {
  const auto table = films();
  const auto rows = [&](std::string_view query) { return found(*table, query); };
  EXPECT_EQ(rows("limit=2"), (Rows{0, 1}));
  EXPECT_EQ(rows("limit=0"), (Rows{}));
  EXPECT_EQ(rows("offset=3"), (Rows{3, 4}));
  EXPECT_EQ(rows("offset=5"), (Rows{}));
  EXPECT_EQ(rows("offset=18446744073709551615"), (Rows{}));
  EXPECT_EQ(rows("limit=18446744073709551615&offset=1"), (Rows{1, 2, 3, 4}));
  EXPECT_EQ(rows("sort=-id&limit=2&offset=1"), (Rows{3, 2}));
  EXPECT_EQ(rows("sort=-id&limit=2&offset=18446744073709551614"), (Rows{}));
  EXPECT_EQ(rows("sort=seen,-id&limit=2&offset=18446744073709551615"), (Rows{}));
  EXPECT_EQ(rows("seen=is.not_null&sort=-id&limit=2&offset=1"), (Rows{3, 1}));
  for (const char* const twice : {"limit=1&limit=2", "offset=0&offset=0"}) EXPECT_FALSE(parse_query(*table, twice));
  const auto query = parse_query(*table, "seen=is.not_null&limit=1&offset=1");
  ASSERT_TRUE(query);
  EXPECT_EQ(select(*table, *query).total, 4u);
  EXPECT_EQ(select(*table, *query).size(), 1u);
}

TEST(ResidentQuery, Fields) {
  const auto table = films();
  const auto fields = [&](std::string_view query) {
    const auto parsed = parse_query(*table, query);
    EXPECT_TRUE(parsed) << query;
    return parsed ? parsed->fields : Rows{999};
  };
  EXPECT_EQ(fields(""), (Rows{}));
  EXPECT_EQ(fields("fields=id"), (Rows{0}));
  EXPECT_EQ(fields("fields=note,id"), (Rows{6, 0}));  // in the requested order, with or without an index
}

// ---- Refused queries ----

TEST(ResidentQuery, RefusalsNameTheParameterAndWhatIsPossible) {
  const auto table = films();
  const std::string possible =
      "possible are: id, title, rating, genres, seen, day, more, sort, limit, offset, fields, or, and";
  const std::string sorted = "sorted can be by: id, title, rating, seen, day";
  const std::string all = "there are: id, title, rating, genres, seen, day, note, more";
  const std::string behind = " is possible, also behind eq., in.(), gt., gte., lt., lte.; or is.null, is.not_null";
  const struct {
    std::string query;
    std::string parameter;
    std::string detail;
  } cases[] = {
      {"nobody=1", "nobody", "there is no such parameter; " + possible},
      {"=1", "", "there is no such parameter; " + possible},
      {"ID=1", "ID", "there is no such parameter; " + possible},
      {"note=x", "note", "rows are not found by this field; " + possible},
      {"id=1&id", "id", "an integer" + behind},
      {"sort", "sort", "it names no field; " + sorted},
      {"i%zz=1", "i%zz", "its name has a broken escape"},
      {"id=1%2", "id", "its value has a broken escape"},
      {"id=", "id", "an integer" + behind},
      {"id=x", "id", "an integer" + behind},
      {"id=1.5", "id", "an integer" + behind},
      {"id=gte.x", "id", "an integer" + behind},
      {"id=in.(1,x)", "id", "an integer" + behind},
      {"rating=x", "rating", "a number" + behind},
      {"seen=maybe", "seen", "true or false" + behind},
      {"day=1979", "day", "a date (2026-11-22)" + behind},
      {"id=is.nothing", "id", "possible are: is.null, is.not_null"},
      {"id=is.", "id", "possible are: is.null, is.not_null"},
      {"id=is.true", "id", "possible are: is.null, is.not_null"},
      {"seen=is.x", "seen", "possible are: is.null, is.not_null, is.true, is.false"},
      {"genres=gt.a", "genres", "the values of \"genres\" have no order; possible are: eq, neq, in, is"},
      {"more=lte.a", "more", "the values of \"more\" have no order; possible are: eq, neq, in, is"},
      {"id=like.1*", "id", "\"id\" is not a text"},
      {"day=not.like.1*", "day", "\"day\" is not a text"},
      {"or=(id.eq.x)", "id", "an integer" + behind},
      {"or=(note.eq.x)", "or", "there is no field \"note\"; possible are: id, title, rating, genres, seen, day, more"},
      {"or=id.eq.1", "or", "a group is written (a.eq.1,b.gt.2)"},
      {"and=(id.eq.1", "and", "a closing parenthesis is missing"},
      {"id=in.1,2", "id", "a list is written in.(1,2,3)"},
      {"id=in.(1,2", "id", "a list is written in.(1,2,3)"},
      {"id=in.(", "id", "a list is written in.(1,2,3)"},
      {"id=in.(1,2,)", "id", "the list ends with a comma"},
      {"title=in.(\"a\",)", "title", "the list ends with a comma"},
      {"title=in.(\"a)", "title", "a quote does not end"},
      {"title=in.(\"a\\\")", "title", "a quote does not end"},
      {"title=in.(\"a\"b)", "title", "a comma is missing behind a quote"},
      {"limit=-1", "limit", "a whole number from 0 on is possible"},
      {"limit=", "limit", "a whole number from 0 on is possible"},
      {"limit=1.5", "limit", "a whole number from 0 on is possible"},
      {"offset=x", "offset", "a whole number from 0 on is possible"},
      {"offset=18446744073709551616", "offset", "a whole number from 0 on is possible"},
      {"sort=nobody", "sort", "there is no field \"nobody\"; " + sorted},
      {"sort=note", "sort", "\"note\" cannot be sorted by; " + sorted},
      {"sort=genres", "sort", "\"genres\" cannot be sorted by; " + sorted},
      {"sort=id,,day", "sort", "there is no field \"\"; " + sorted},
      {"sort=id,", "sort", "there is no field \"\"; " + sorted},
      {"sort=-", "sort", "there is no field \"\"; " + sorted},
      {"sort=", "sort", "it names no field; " + sorted},
      {"sort=id,-id", "sort", "\"id\" comes twice"},
      {"sort=id&sort=day", "sort", "it comes twice"},
      {"fields=nobody", "fields", "there is no field \"nobody\"; " + all},
      {"fields=id,", "fields", "there is no field \"\"; " + all},
      {"fields=", "fields", "it names no field; " + all},
      {"fields=id,id", "fields", "\"id\" comes twice"},
      {"fields=id&fields=day", "fields", "it comes twice"},
  };
  for (const auto& one : cases) {
    const auto parsed = parse_query(*table, one.query);
    ASSERT_FALSE(parsed) << one.query;
    EXPECT_EQ(parsed.error().parameter, one.parameter) << one.query;
    EXPECT_EQ(parsed.error().detail, one.detail) << one.query;
  }
  // The refusal repeats only a part of a long name.
  const auto long_name = parse_query(*table, std::string(1000, 'n') + "=1");
  ASSERT_FALSE(long_name);
  EXPECT_EQ(long_name.error().parameter, std::string(64, 'n'));
  const auto long_field = parse_query(*table, "sort=" + std::string(1000, 'n'));
  ASSERT_FALSE(long_field);
  EXPECT_LT(long_field.error().detail.size(), 200u);
}

// An interval, which does not sort like its text, and a UUID.
TEST(ResidentQuery, TypesThatOnlyTheDatabaseCanOrder) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("span", sql::Form::text, 1186),
                 column_of("code", sql::Form::text, 2950)});
  rows.row({"1", "2 days", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"})
      .row({"2", "10 days", "00eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"})
      .row({"3", nullptr, nullptr})
      .row({"4", "2 days", nullptr});
  const auto table = table_of({.key = "id", .index = {"span", "code"}}, rows);
  EXPECT_EQ(found(*table, "span=2+days"), (Rows{0, 3}));
  EXPECT_EQ(found(*table, "span=in.(10+days,1+day)&id=2"), (Rows{1}));
  EXPECT_EQ(found(*table, "span=is.null"), (Rows{2}));
  EXPECT_EQ(found(*table, "id=gte.2&span=is.not_null"), (Rows{1, 3}));
  EXPECT_EQ(found(*table, "span=is.not_null&id=lt.4"), (Rows{0, 1}));
  const auto ranged = parse_query(*table, "span=gt.1+day");
  ASSERT_FALSE(ranged);
  EXPECT_EQ(ranged.error().parameter, "span");
  EXPECT_EQ(ranged.error().detail, "the values of \"span\" have no order; possible are: eq, neq, in, is");
  const auto sorted = parse_query(*table, "sort=-span");
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().detail, "\"span\" cannot be sorted by; sorted can be by: id, code");

  EXPECT_EQ(found(*table, "code=A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), (Rows{0}));
  EXPECT_EQ(found(*table, "code=in.({00eebc999c0b4ef8bb6d6bb9bd380a11})"), (Rows{1}));
  EXPECT_EQ(found(*table, "code=gte.10000000-0000-0000-0000-000000000000"), (Rows{0}));
  EXPECT_EQ(found(*table, "sort=code"), (Rows{1, 0, 2, 3}));
  const auto other = parse_query(*table, "code=x");
  ASSERT_FALSE(other);
  EXPECT_TRUE(other.error().detail.starts_with("a UUID is possible, also behind eq., in.(), gt.,"))
      << other.error().detail;
}

TEST(ResidentQuery, Limits) {
  const auto table = films();
  std::string list = "id=in.(0";
  for (std::size_t i = 1; i < query_bounds.values; ++i) list += "," + std::to_string(i);
  EXPECT_EQ(found(*table, list + ")"), (Rows{0, 1, 2, 3, 4}));
  const auto longer = parse_query(*table, list + ",x)");
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().detail, "a list of up to 1000 values is possible");

  std::string conditions;
  for (std::size_t i = 0; i < query_bounds.conditions; ++i) conditions += "&id=gt.10";
  EXPECT_EQ(found(*table, conditions), (Rows{1, 2, 3, 4}));
  const auto more = parse_query(*table, conditions + "&id=1");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().detail, "up to 32 conditions are possible");
}

}  // namespace
}  // namespace sluice::api::resident
