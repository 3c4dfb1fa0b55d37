#include "api/resident/row_text.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

using Texts = std::vector<std::string>;

Texts cut(const std::vector<sql::Column>& columns, std::string_view row) {
  const RowText text(columns);
  std::vector<std::string_view> values(columns.size());
  text.cut(row, values);
  return {values.begin(), values.end()};
}

const std::vector<sql::Column> three = {column_of("id", sql::Form::number), column_of("a \"name\"", sql::Form::text),
                                        column_of("j", sql::Form::json)};

TEST(ResidentRowText, CutsWhatTheEncoderWrites) {
  EXPECT_EQ(cut(three, R"({"id":1,"a \"name\"":"x","j":null})"), (Texts{"1", "\"x\"", "null"}));
  EXPECT_EQ(cut(three, "{\"id\":-1.5e3,\"a \\\"name\\\"\":\"\",\"j\":[]}\n"), (Texts{"-1.5e3", "\"\"", "[]"}));
  // Strings that contain closing characters.
  EXPECT_EQ(cut(three, R"({"id":1,"a \"name\"":"a,b}]{[\"","j":"\\"})"), (Texts{"1", R"("a,b}]{[\"")", R"("\\")"}));
  EXPECT_EQ(cut(three, R"({"id":1,"a \"name\"":"\\\\\"","j":"\\\""})"), (Texts{"1", R"("\\\\\"")", R"("\\\"")"}));
  // jsonb as PostgreSQL prints it, and json as a user wrote it.
  EXPECT_EQ(cut(three, R"({"id":1,"a \"name\"":null,"j":{"a": [1, {"b": "}"}], "c": ",", "d": []}})"),
            (Texts{"1", "null", R"({"a": [1, {"b": "}"}], "c": ",", "d": []})"}));
  EXPECT_EQ(cut(three, "{\"id\":1,\"a \\\"name\\\"\":null,\"j\": \t[ 1 , [ 2 ] ] }"),
            (Texts{"1", "null", " \t[ 1 , [ 2 ] ] "}));
}

TEST(ResidentRowText, TheEncodersOwnRowsComeBackAsTheirValues) {
  TestRows rows({column_of("n", sql::Form::number), column_of("t\n\"", sql::Form::text),
                 column_of("j", sql::Form::json), array_of("a", sql::Form::text), column_of("b", sql::Form::boolean),
                 column_of("d", sql::Form::timestamp_tz)});
  rows.row({"1.50", "a\"b\\c\nd\x01", "{\"a\": [1, 2], \"b\": \"}\"}", "{a,\"b,c\",NULL}", "t",
            "2026-11-22 18:30:00+00"})
      .row({nullptr, nullptr, nullptr, nullptr, nullptr, nullptr})
      .row({"NaN", "", " \" \\\" ,\" ", "{}", "f", "infinity"});
  const std::string lines = encoded(sql::Format::ndjson, rows);
  const std::string csj = encoded(sql::Format::csj, rows, sql::Header::absent);
  std::string rejoined;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at) + 1;
    const Texts values = cut(rows.columns, std::string_view(lines).substr(at, end - at));
    for (std::size_t i = 0; i < values.size(); ++i) rejoined += (i == 0 ? "" : ",") + values[i];
    rejoined += '\n';
    at = end;
  }
  EXPECT_EQ(rejoined, csj);
}

TEST(ResidentRowText, WhereAValueEnds) {
  EXPECT_EQ(value_size(""), 0u);
  EXPECT_EQ(value_size("1"), 1u);
  EXPECT_EQ(value_size("12,3"), 2u);
  EXPECT_EQ(value_size(" 12 ,3"), 4u);
  EXPECT_EQ(value_size("]"), 0u);
  EXPECT_EQ(value_size("[1,2],3"), 5u);
  EXPECT_EQ(value_size("{\"a\":[1,2]}}"), 11u);
  EXPECT_EQ(value_size("\"a,b\",c"), 5u);
  EXPECT_EQ(value_size("\"a\\\",b\",c"), 7u);
  EXPECT_EQ(value_size("\"open"), 5u);
  EXPECT_EQ(value_size("[[[1"), 4u);
}

TEST(ResidentRowText, Trimmed) {
  EXPECT_EQ(trimmed(" \t\r\n a b \n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

std::string unescaped(std::string_view text) {
  std::string out;
  append_unescaped(text, out);
  return out;
}

TEST(ResidentRowText, Unescapes) {
  EXPECT_EQ(unescaped(""), "");
  EXPECT_EQ(unescaped("plain \xc3\xa4"), "plain \xc3\xa4");
  EXPECT_EQ(unescaped(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(unescaped(R"(\u0041\u00e4\u20AC)"), "A\xc3\xa4\xe2\x82\xac");
  EXPECT_EQ(unescaped(R"(\ud83d\ude00!)"), "\xf0\x9f\x98\x80!");
  EXPECT_EQ(unescaped(R"(\u0000)"), std::string(1, '\0'));
}

// JSON allows lone surrogates, and PostgreSQL's json keeps them, but they are not characters.
TEST(ResidentRowText, HalfASurrogatePairIsNoCharacter) {
  EXPECT_EQ(unescaped(R"(\ud83d)"), "\xef\xbf\xbd");
  EXPECT_EQ(unescaped(R"(\ude00)"), "\xef\xbf\xbd");
  EXPECT_EQ(unescaped(R"(\ud83d\u0041)"),
            "\xef\xbf\xbd"
            "A");
  EXPECT_EQ(unescaped(R"(\ud83d\ud83d\ude00)"), "\xef\xbf\xbd\xf0\x9f\x98\x80");
  EXPECT_EQ(unescaped(R"(\ud83dx)"), "\xef\xbf\xbdx");
}

// Invalid text must not cause a read past the end, and the results must be views into it.
TEST(ResidentRowText, BrokenTextsAreCutToo) {
  std::mt19937 random(5);
  static constexpr std::string_view letters = "\"\\{}[],: u0d8\n";
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = random() % 24;
    const auto memory = std::make_unique<char[]>(size);
    for (std::size_t k = 0; k < size; ++k) memory[k] = letters[random() % letters.size()];
    const std::string_view text(memory.get(), size);
    ASSERT_LE(value_size(text), size);
    std::size_t together = 0;
    for (const std::string& value : cut(three, text)) together += value.size();
    ASSERT_LE(together, size);
    ASSERT_LE(unescaped(text).size(), size * 2);
  }
}

}  // namespace
}  // namespace sluice::api::resident
