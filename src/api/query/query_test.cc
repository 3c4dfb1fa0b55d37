#include "api/query/query.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::api::query {
namespace {

Vocabulary vocabulary() {
  Vocabulary words;
  words.columns = {
      {.name = "id",
       .type = {.kind = resident::Kind::integer},
       .filters = true,
       .sorts = true,
       .shows = true,
       .orders = true},
      {.name = "name", .filters = true, .sorts = true, .shows = true, .orders = true, .is_text = true},
      {.name = "adult", .type = {.kind = resident::Kind::boolean}, .filters = true, .shows = true, .is_boolean = true},
      {.name = "kind", .filters = true, .shows = true, .labels = {"a", "b"}},
      {.name = "secret"}};
  words.pages = words.searches = words.counts = true;
  words.others.add("year");
  words.others.add("tag", true);
  return words;
}

// The conditions as text, `any(id eq 1, not name like "a*")`.
std::string text_of(const Condition& condition) {
  static constexpr std::string_view names[] = {"eq", "neq", "gt", "gte", "lt", "lte", "in", "is", "like"};
  std::string text = condition.negated ? "not " : "";
  if (condition.kind == Condition::Kind::compare) {
    text +=
        vocabulary().columns[condition.column].name + " " + std::string(names[static_cast<std::size_t>(condition.op)]);
    for (const std::string& value : condition.values) text += " " + value;
    return text;
  }
  text += condition.kind == Condition::Kind::any ? "any(" : "all(";
  for (const Condition& part : condition.parts) {
    text += (&part == &condition.parts.front() ? "" : ", ") + text_of(part);
  }
  return text + ")";
}

std::string conditions_of(std::string_view query) {
  const auto parsed = parse(vocabulary(), query);
  if (!parsed) return parsed.error().parameter + ": " + parsed.error().detail;
  std::string text;
  for (const Condition& condition : parsed->conditions) text += (text.empty() ? "" : "; ") + text_of(condition);
  return text;
}

TEST(Query, Conditions) {
  EXPECT_EQ(conditions_of(""), "");
  EXPECT_EQ(conditions_of("id=1&&id=gte.2&name=a.b"), "id eq 1; id gte 2; name eq a.b");
  EXPECT_EQ(conditions_of("name=eq.like.a&name=like.a*&name=likely.a"),
            "name eq like.a; name like a*; name eq likely.a");
  EXPECT_EQ(conditions_of("name=not.a&name=not.eq.a"), "name eq not.a; not name eq a");
  EXPECT_EQ(conditions_of("name=in.(a,\"b,\\\"c\",d)e)"), "name in a b,\"c d)e");
  EXPECT_EQ(conditions_of("id=in.()"), "id in");
  EXPECT_EQ(conditions_of("adult=is.true&id=is.null"), "adult is true; id is null");
  EXPECT_EQ(conditions_of("na%6De=a+b%2B"), "name eq a b+");
  EXPECT_EQ(conditions_of("year=1&tag=a&tag=b"), "");
}

TEST(Query, Groups) {
  EXPECT_EQ(conditions_of("or=(id.eq.1,name.not.like.a*)"), "any(id eq 1, not name like a*)");
  EXPECT_EQ(conditions_of("not.and=(id.in.(1,2),or(name.eq.\"a,)b\",not.and(id.lt.3,id.gt.1)))"),
            "not all(id in 1 2, any(name eq a,)b, not all(id lt 3, id gt 1)))");
  EXPECT_EQ(conditions_of("or=(or(or(or(id.eq.1))))"), "any(any(any(any(id eq 1))))");
  EXPECT_EQ(conditions_of("or=(or(or(or(or(id.eq.1)))))"), "or: groups may be 4 deep");
}

TEST(Query, Refusals) {
  EXPECT_EQ(
      conditions_of("secret=1"),
      "secret: rows are not found by this field; possible are: id, name, adult, kind, sort, limit, offset, fields, "
      "or, and, q, after, before, count, year, tag");
  EXPECT_EQ(conditions_of("year=1&year=2"), "year: it comes more than once");
  EXPECT_EQ(conditions_of("adult=gt.1"), "adult: the values of \"adult\" have no order; possible are: eq, neq, in, is");
  EXPECT_EQ(conditions_of("id=like.1*"), "id: \"id\" is not a text");
  EXPECT_EQ(conditions_of("id=is.true"), "id: possible are: is.null, is.not_null");
  EXPECT_EQ(conditions_of("id=in.(1"), "id: a list is written in.(1,2,3)");
  EXPECT_EQ(conditions_of("id=in.(1,)"), "id: the list ends with a comma");
  EXPECT_EQ(conditions_of("id=in.(\"1)"), "id: a quote does not end");
  EXPECT_EQ(conditions_of("or=(id.eq.1"), "or: a closing parenthesis is missing");
  EXPECT_EQ(conditions_of("or=(not.id.eq.1)"), "or: `not.` stands before a group, or behind a field");
  EXPECT_EQ(conditions_of("or=(\"id\"x.eq.1)"), "or: a comma is missing behind a quote");
  EXPECT_EQ(conditions_of("or=(secret.eq.1)"), "or: there is no field \"secret\"; possible are: id, name, adult, kind");
  EXPECT_EQ(conditions_of("i%zz=1"), "i%zz: its name has a broken escape");
  EXPECT_EQ(conditions_of(std::string(100, 'x') + "=1").substr(0, 66), std::string(64, 'x') + ": ");
}

TEST(Query, Bounds) {
  Vocabulary words = vocabulary();
  words.bounds = {.conditions = 2, .values = 2, .depth = 1};
  EXPECT_TRUE(parse(words, "id=1&or=(id.eq.2)"));
  EXPECT_FALSE(parse(words, "id=1&or=(id.eq.2,id.eq.3)"));
  EXPECT_FALSE(parse(words, "q=a+b+c"));
  EXPECT_TRUE(parse(words, "id=in.(1,2)"));
  EXPECT_FALSE(parse(words, "id=in.(1,2,3)"));
}

TEST(Query, AnEmptyValueMayBeNoCondition) {
  EXPECT_EQ(conditions_of("name=&id=1"), "name eq ; id eq 1");
  Vocabulary words = vocabulary();
  words.skips_empty = true;
  const auto query = parse(words, "name=&id=&name=eq.");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->conditions.size(), 1u);
}

TEST(Query, Pages) {
  const auto query =
      parse(vocabulary(), "sort=-name,id&limit=5&offset=10&fields=name,id&after=x&before=y&q=+a++b&count=exact");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->sort, (std::vector<Key>{{1, true}, {0, false}}));
  EXPECT_EQ(query->limit, 5);
  EXPECT_EQ(query->offset, 10);
  EXPECT_EQ(query->fields, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(query->after, "x");
  EXPECT_EQ(query->before, "y");
  EXPECT_EQ(query->words, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(query->count, Count::exact);
  for (const char* const twice : {"limit=1&limit=1", "sort=id&sort=id", "fields=id&fields=id", "after=a&after=a",
                                  "q=a&q=a", "count=exact&count=exact"}) {
    const auto refused = parse(vocabulary(), twice);
    ASSERT_FALSE(refused) << twice;
    EXPECT_EQ(refused.error().detail, "it comes twice");
  }
  for (const char* const wrong : {"limit=", "limit=-1", "limit=1x", "limit=99999999999999999999", "sort=", "sort=adult",
                                  "sort=id,,name", "fields=", "fields=secret", "fields=id,id", "count="}) {
    EXPECT_FALSE(parse(vocabulary(), wrong)) << wrong;
  }
}

TEST(Query, ParametersThatAListLacksAreRefused) {
  Vocabulary words = vocabulary();
  words.pages = words.searches = words.counts = false;
  for (const char* const unknown : {"after=a", "before=a", "q=a", "count=exact"}) {
    EXPECT_FALSE(parse(words, unknown)) << unknown;
  }
}

}  // namespace
}  // namespace sluice::api::query
