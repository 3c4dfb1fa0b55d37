#include "app/config/source.h"

#include <tuple>

#include <gtest/gtest.h>

#include "app/config/document.h"
#include "app/config/load.h"

namespace sluice::app::config {
namespace {

// A source whose lines are shown in messages.
Source read(const std::string& text) {
  Source source("a.toml", text);
  std::vector<Diagnostic> errors;
  EXPECT_TRUE(parse_document(source, errors)) << text;
  return source;
}

// A line as messages show it.
std::string shown(const Source& source, std::uint32_t line = 1) {
  const std::string text = source.render({{line, 1}, "no"});
  const auto begin = text.find("| ");
  return begin == text.npos ? "" : text.substr(begin + 2, text.find('\n', begin) - begin - 2);
}

TEST(Render, LineCaretAndHint) {
  const Source source = read("one = 1\n\ttwo = 2\r\n");
  EXPECT_EQ(source.render({{2, 2}, "unknown key", "did you mean this?"}),
            "a.toml:2:2: error: unknown key\n"
            "  2 |  two = 2\n"
            "    |  ^\n"
            "    = did you mean this?\n");
  EXPECT_EQ(source.render({{1, 7}, "no"}), "a.toml:1:7: error: no\n  1 | one = 1\n    |       ^\n");
  EXPECT_EQ(source.render({{}, "no", "why"}), "a.toml: error: no\n  = why\n");
}

TEST(Render, PositionsBeyondTheTextAreShownAtItsEnd) {
  const Source source = read("a = 1");
  EXPECT_EQ(source.render({{1, 50}, "no"}), "a.toml:1:50: error: no\n  1 | a = 1\n    |      ^\n");
  EXPECT_EQ(source.render({{9, 1}, "no", "why"}), "a.toml:9:1: error: no\n  = why\n");
  EXPECT_EQ(Source().render({{1, 1}, "no"}), ":1:1: error: no\n");
}

TEST(Render, CountsCharactersNotBytes) {
  const Source source = read("\xEF\xBB\xBF\"größe\" = 1");
  EXPECT_EQ(source.render({{1, 11}, "no"}), "a.toml:1:11: error: no\n  1 | \"größe\" = 1\n    |           ^\n");
}

TEST(Render, NothingReachesTheTerminalRaw) {
  Source source("a.toml", std::string("a\x1b[31m\xff\xc2\x9b\x7f\0b", 12));
  source.take({});
  EXPECT_EQ(source.render({{1, 1}, "key \x1b[1m"}),
            "a.toml:1:1: error: key \uFFFD[1m\n  1 | a\uFFFD[31m\uFFFD\uFFFD\uFFFD\uFFFDb\n    | ^\n");
}

TEST(Render, MasksValues) {
  const std::pair<const char*, const char*> lines[] = {
      {R"(url = "postgres://u:hu sh@h/d" # x)", R"(url = "**********************" #**)"},
      {R"(secrt = 'größe"')", R"(secrt = '******')"},
      {R"(Secret = """hun"ter2""")", R"(Secret = """********""")"},
      {R"("sec#ret" = "a\"b#")", R"("sec#**************)"},
      {R"(secret = ["a", ["b"], {c = "d", e.f = 7}])", R"(secret = ["*", ["*"], {c = "*", e.f = 7}])"},
      {R"(a = [123456, true, 1.5, 3.14159, 1999-12-31])", R"(a = [******, true, 1.5, *******, 1999-12-31])"},
      {R"(a = { rate = "100/s", timeout = "5s", key = "hush", token = "hush" })",
       R"(a = { rate = "100/s", timeout = "5s", key = "****", token = "****" })"},
      // Names that the user has chosen say nothing about the values.
      {R"(keys = { path = "hush", table.from = ["hush"] })", R"(keys = { path = "****", table.from = ["****"] })"},
      {R"([[endpoint]] # a)", R"([[endpoint]] #**)"},
      {R"(a = { type = "jtw", secret="hun\"ter\\", path = "/y#z" } # b)",
       R"(a = { type = "jtw", secret="**********", path = "/y#z" } #**)"},
      {R"(put = { secret = "a", before = [["b"], {c = "d"}] })",
       R"(put = { secret = "*", before = [["b"], {c = "*"}] })"},
      {R"(get = "SELECT \"a\" WHERE b = :b AND c = 'hush' AND d = 'e'")",
       R"(get = "SELECT \"a\" WHERE b = :b AND c = '****' AND d = '*'")"},
      {R"(get = "SELECT ':a', '', 'it''s', '")", R"(get = "SELECT '**', '', '**''*', '")"},
      {R"(get = "SELECT \"it's\", 'hush'")", R"(get = "SELECT \"it's\", '****'")"},
      {R"(get = "SELECT $$hush$$, $q$it's$q$, $1, a$1$b, 'c'")",
       R"(get = "SELECT $$****$$, $q$****$q$, $1, a$1$b, '*'")"},
      {R"(get = "SELECT /* it's */ 'a' -- b's")", R"(get = "SELECT /********/ '*' --****")"},
      {R"(get = "SELECT 'hush")", R"(get = "SELECT '****")"},
      {R"(get = "SELECT E'it\\'s hush', e'a''\\\\', 'b\\', c'")",
       R"(get = "SELECT E'***********', e'*******', '***', c'")"},
      {R"(get = '''SELECT E'it\'s hush', E'a\\', one'b\', E':c\'d', e''')",
       R"(get = '''SELECT E'**********', E'***', one'**', E'*****', e''')"},
      {R"(get = "SELECT /* /* a */ it's */ 'hush'")", R"(get = "SELECT /************************")"},
      {R"-(require = ["eq(header.x-api-key,'hush')", "b"])-", R"-(require = ["eq(header.x-api-key,'****')", "b"])-"},
  };
  for (const auto& [line, masked] : lines) EXPECT_EQ(shown(read(line)), masked);
}

TEST(Render, MasksStringsOfSeveralLines) {
  const Source source = read(
      "# it's\nsecret = \"\"\"\nhush\n\\\"\"\"\"\nget = \"\"\"\nSELECT 'a\nb'\n\"\"\"\nbefore = [\n  \"SELECT\", # "
      "c\n]\nx = "
      "[\n\"a\"]\n[b]");
  const char* lines[] = {
      "#*****",     "secret = \"\"\"",   "****", "**\"\"\"", "get = \"\"\"", "SELECT '*", "*'", "\"\"\"",
      "before = [", "  \"SELECT\", #**", "]",    "x = [",    "\"*\"]",       "[b]"};
  for (std::uint32_t i = 0; i < std::size(lines); ++i) EXPECT_EQ(shown(source, i + 1), lines[i]) << i;
}

TEST(Render, ShowsNothingOfWhatIsNoToml) {
  for (const char* text :
       {"secret = hush", "secret: \"hush\"", "secret hush", "secret = \"hush", "a = 1\nsecret = \"hush\" 5"}) {
    Source source("a.toml", text);
    std::vector<Diagnostic> errors;
    EXPECT_FALSE(parse_document(source, errors));
    ASSERT_EQ(errors.size(), 1u);
    errors[0].message = "no";
    EXPECT_TRUE(source.render(errors[0]).ends_with(": error: no\n")) << source.render(errors[0]);
  }
}

TEST(WithoutLiterals, MessagesOfDatabases) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"SELECT 'hush'", R"(invalid input syntax for type integer: "hush")",
       R"(invalid input syntax for type integer: "***")"},
      {"SELECT x'hush'", R"(unrecognized token: "x'hush'")", R"(unrecognized token: "x'***'")"},
      {"SELECT $q$hush$q$", R"(syntax error at or near "$q$hush$q$")", R"(syntax error at or near "$q$***$q$")"},
      {"SELECT $$a$$, 'a-b'", R"(near "'a-b'": "a")", R"(near "'***'": "***")"},
      {"SELECT 'it''s hush'", R"(invalid: "it's hush")", R"(invalid: "it'***")"},
      {R"(SELECT E'it\'s hush', E'a\\b', 'c\d')", R"(invalid: "it's hush" b c\d)", R"(invalid: "it'***" b ***)"},
      {R"(SELECT E'one\ttwo''three')", "one\ttwo'three", "***\t***'***"},
      {"SELECT /* /* a */ it's */ 'hush'", R"(invalid: "hush")", R"(invalid: "***")"},
      {"SELECT '{1,hush}'", R"(invalid: "hush" "1")", R"(invalid: "***" "***")"},
      {R"(SELECT '{"a": hush}')", R"(Token "hush" is invalid: {"a": hush})", R"(Token "***" is invalid: ***)"},
      {"SELECT 'a', '', nmae", "no such column: nmae, \"nmae\"", "no such column: nmae, \"nmae\""},
      {"SELECT ':name', '%:q%'", R"(near "':name'" and "%:q%")", R"(near "'***'" and "***")"},
      {"SELECT \"it's\", 'hush'", R"(no such column: it's, "hush")", R"(no such column: it's, "***")"},
      {"PREPARE TRANSACTION 'a'", "a statement may not", "a statement may not"},
      {"-- it's\nSELECT 'hush'", R"(no such: "hush")", R"(no such: "***")"},
      {"SELECT 'hush", R"(unrecognized token: "'hush")", R"(unrecognized token: "'***")"},
  };
  for (const auto& [statement, message, shown] : cases) EXPECT_EQ(without_literals(message, statement), shown);
}

TEST(Render, CutsLongLinesAroundTheError) {
  Source source("a.toml", std::string(1000, 'a') + "X" + std::string(1000, 'b'));
  source.take({});
  EXPECT_EQ(source.render({{1, 1001}, "no"}), "a.toml:1:1001: error: no\n  1 | ..." + std::string(80, 'a') + "X" +
                                                  std::string(79, 'b') + "...\n    | " + std::string(83, ' ') + "^\n");
  EXPECT_EQ(source.render({{1, 1}, "no"}), "a.toml:1:1: error: no\n  1 | " + std::string(160, 'a') + "...\n    | ^\n");
}

TEST(Errors, OnlyTheFirstTwenty) {
  Errors errors{Source("a.toml", "x"), std::vector<Diagnostic>(23, Diagnostic{{1, 1}, "no"})};
  std::string one = "a.toml:1:1: error: no\n";
  std::string all;
  for (int i = 0; i < 20; ++i) all += one;
  EXPECT_EQ(errors.text(), all + "a.toml: and 3 more errors\n");
}

// Reads `x = LITERAL` and checks that locate() finds the place of each character of the value in the file.
void expect_every_character_found(const std::string& literal) {
  Source source("a.toml", "# first\nx = " + literal);
  std::vector<Diagnostic> errors;
  auto document = parse_document(source, errors);
  ASSERT_TRUE(document) << literal;
  const Value& value = document->entries[0].value;
  EXPECT_EQ(source.locate(value.position, 0), value.position);
  for (std::size_t i = 0; i < value.text.size(); ++i) {
    Position at = source.locate(value.position, static_cast<std::uint32_t>(i) + 1);
    std::string_view text = source.text();
    for (std::uint32_t line = 1; line < at.line; ++line) text.remove_prefix(text.find('\n') + 1);
    text.remove_prefix(at.column - 1);
    char expected = value.text[i];
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    if (expected == '\n') EXPECT_TRUE(text[0] == '\n' || text.starts_with("\\n")) << literal << " at " << i;
    if (expected != '\n') EXPECT_EQ(text[0], text[0] == '\\' ? '\\' : expected) << literal << " at " << i;
  }
}

TEST(Locate, EveryKindOfString) {
  for (const char* literal : {
           R"("abc def")",
           R"('abc "def" \n')",
           R"("a\tb\"c\\d\u0041e\U00000041f\ng")",
           "\"\"\"abc\ndef\n\nghi\"\"\"",
           "\"\"\"\nabc\ndef\"\"\"",
           "\"\"\"\r\nabc\r\ndef\"\"\"",
           "\"\"\"abc\\\n   def \\\n\n\n  ghi \\\\ \\t jkl\"\"\"",
           "\"\"\"\\\n   abc\"\"\"",
           "'''\nabc\\\n  def'''",
           "'''a'b''c'''",
           "\"\"\"a\"b\"\"c\"\"\"",
           R"("")",
       }) {
    expect_every_character_found(literal);
  }
}

TEST(Locate, CountsCharactersInTheValueToo) {
  Source source("a.toml", "x = \"größe ich\"");
  EXPECT_EQ(source.locate({1, 5}, 7), (Position{1, 12}));
}

TEST(Locate, ThroughReplacedVariables) {
  Source source("a.toml", "x = \"\"\"\nab ${N} cd\n$${x} ${M}!\"\"\"");
  std::vector<Diagnostic> errors;
  auto document = parse_document(source, errors);
  ASSERT_TRUE(document);
  Value& value = document->entries[0].value;
  substitute(value, [](std::string_view name) { return name == "N" ? "123456789" : ""; }, no_secrets, source, errors);
  ASSERT_TRUE(errors.empty());
  ASSERT_EQ(value.text, "ab 123456789 cd\n${x} !");
  EXPECT_EQ(source.locate(value.position, 1), (Position{2, 1}));
  EXPECT_EQ(source.locate(value.position, 4), (Position{2, 4}));    // 1
  EXPECT_EQ(source.locate(value.position, 12), (Position{2, 4}));   // 9: still in the variable
  EXPECT_EQ(source.locate(value.position, 14), (Position{2, 9}));   // c
  EXPECT_EQ(source.locate(value.position, 17), (Position{3, 1}));   // $
  EXPECT_EQ(source.locate(value.position, 19), (Position{3, 4}));   // x
  EXPECT_EQ(source.locate(value.position, 22), (Position{3, 11}));  // !
}

TEST(Locate, NeverLeavesTheText) {
  Source source("a.toml", "x = \"ab\\");
  EXPECT_EQ(source.locate({1, 1}, 5), (Position{1, 1}));  // not a string
  EXPECT_EQ(source.locate({7, 1}, 5), (Position{7, 1}));
  for (const char* literal : {"\"ab\\", "\"\"\"\\", "\"\"\"\\\n ", "\"\\u00", "'", "'''"}) {
    Source broken("a.toml", literal);
    Position end = broken.locate({1, 1}, 1000);
    EXPECT_LE(end, (Position{2, 2})) << literal;
    EXPECT_GE(end, (Position{1, 2})) << literal;
  }
}

}  // namespace
}  // namespace sluice::app::config
