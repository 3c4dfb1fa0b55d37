#include "app/config/reader.h"

#include <gtest/gtest.h>

// Types of the reader that few structs of options use.
namespace sluice::app::config {
namespace {

struct Inner {
  Located<std::string> sql;
  std::int64_t number = 5;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("sql", &Inner::sql, "", {.required = true});
    v.field("number", &Inner::number, "");
    v.shorthand("sql");
  }
};

struct Outer {
  double ratio = 0.5;
  std::int8_t small = 0;
  std::uint16_t port = 1;
  std::optional<Inner> put;
  std::vector<std::int64_t> numbers;
  std::vector<std::string> words = {"a"};
  std::vector<Named<std::string>> names;
  std::optional<bool> maybe;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("ratio", &Outer::ratio, "", {.min = 0, .max = 1});
    v.field("small", &Outer::small, "");
    v.field("port", &Outer::port, "");
    v.field("put", &Outer::put, "");
    v.field("numbers", &Outer::numbers, "");
    v.field("words", &Outer::words, "", {.required = true});
    v.field("names", &Outer::names, "");
    v.field("maybe", &Outer::maybe, "");
    v.position(&Outer::position);
  }
};
static_assert(Declared<Inner> && Declared<Outer> && !Declared<std::string>);

std::pair<Outer, std::string> read(const std::string& text) {
  Source source("a.toml", "words = [\"b\"]\n" + text);
  std::vector<Diagnostic> errors;
  Outer outer;
  auto document = parse_document(source, errors);
  if (document) Reader(errors).read(*document, outer);
  std::string messages;
  for (const Diagnostic& one : errors) messages += one.message + "\n";
  return {outer, messages};
}

TEST(Reader, Numbers) {
  EXPECT_EQ(read("ratio = 0.25").first.ratio, 0.25);
  EXPECT_EQ(read("ratio = 1").first.ratio, 1.0);
  EXPECT_EQ(read("ratio = 1.1").second, "ratio must be at most 1\n");
  EXPECT_EQ(read("ratio = -0.1").second, "ratio must be at least 0\n");
  EXPECT_EQ(read("ratio = nan").second, "ratio must be a finite number\n");
  EXPECT_EQ(read("ratio = \"1\"").second, "ratio must be a number, not a string\n");
  EXPECT_EQ(read("small = -128").first.small, -128);
  EXPECT_EQ(read("small = -129").second, "small must be at least -128\n");
  EXPECT_EQ(read("small = 128").second, "small must be at most 127\n");
  EXPECT_EQ(read("port = 65536").second, "port must be at most 65535\n");
}

TEST(Reader, AStringStandsForATable) {
  EXPECT_EQ(read("put = \"SELECT\"").first.put->sql.value, "SELECT");
  EXPECT_EQ(read("put = \"SELECT\"").first.put->sql.position, (Position{2, 7}));
  EXPECT_EQ(read("put = \"SELECT\"").first.put->number, 5);
  EXPECT_EQ(read("put = { sql = \"SELECT\", number = 6 }").first.put->number, 6);
  EXPECT_EQ(read("put = { number = 6 }").second, "[put] needs the key \"sql\"\n");
  EXPECT_EQ(read("put = 5").second, "put.sql must be a string, not an integer\n");
  EXPECT_EQ(read("put = []").second, "put must be a table, not a list\n");
  EXPECT_FALSE(read("").first.put);
}

TEST(Reader, Lists) {
  EXPECT_EQ(read("numbers = [3, 1, 2]").first.numbers, (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(read("numbers = [3, \"a\", 2.5]").second,
            "numbers must be an integer, not a string\nnumbers must be an integer, not a float\n");
  EXPECT_EQ(read("").first.words, std::vector<std::string>{"b"});
}

TEST(Reader, NamesInTheOrderOfTheFile) {
  Outer outer = read("[names]\nz = \"1\"\na = \"2\"").first;
  ASSERT_EQ(outer.names.size(), 2u);
  EXPECT_EQ(outer.names[0].name.value, "z");
  EXPECT_EQ(outer.names[0].name.position, (Position{3, 1}));
  EXPECT_EQ(outer.names[1].value, "2");
}

TEST(Reader, OptionalsSayWhetherTheyAreThere) {
  EXPECT_EQ(read("maybe = false").first.maybe, false);
  EXPECT_EQ(read("").first.maybe, std::nullopt);
  EXPECT_EQ(read("maybe = 0").first.maybe, std::nullopt);
}

TEST(Reader, RequiredIsThereAndNotEmpty) {
  Outer outer;
  std::vector<Diagnostic> errors;
  Source source("a.toml", "");
  Reader(errors).read(*parse_document(source, errors), outer);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "the file needs the key \"words\"");
  errors.clear();
  Source empty("a.toml", "words = []");
  Reader(errors).read(*parse_document(empty, errors), outer);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "words must not be empty");
}

}  // namespace
}  // namespace sluice::app::config
