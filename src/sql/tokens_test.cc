#include "sql/tokens.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

using Kind = Token::Kind;

// "select «Id» 'text' ?1 =": each kind has its own marks.
std::string said(std::string_view statement, Tokens::Case quoted = Tokens::Case::lower) {
  const Tokens tokens(statement, quoted);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (i != 0) text += ' ';
    if (token.kind == Kind::quoted) text += "«" + token.text + "»";
    if (token.kind == Kind::literal) text += "'" + token.text + "'";
    if (token.kind == Kind::parameter) text += "?" + token.text;
    if (token.kind == Kind::word || token.kind == Kind::sign) text += token.text;
  }
  return text;
}

TEST(Tokens, Kinds) {
  EXPECT_EQ(said("SELECT a.\"B\", `C`,[D] FROM T WHERE x>=?1 AND y=$2"),
            "select a . «b» , «c» , «d» from t where x >= ?1 and y = $2");
  EXPECT_EQ(said("SELECT \"B\"\"b\", 'It''s', x'F0', 1.5e3", Tokens::Case::kept),
            "select «B\"b» , 'It's' , x 'F0' , '1.5e3'");
  EXPECT_EQ(said("a->>'$.b'->c<>d<<1||e!=f==g"), "a ->> '$.b' -> c <> d << '1' || e != f == g");
  EXPECT_EQ(said(""), "");
  EXPECT_EQ(said("'a"), "'a'") << "what does not end, ends with the statement";
  EXPECT_EQ(said("\"a"), "«a»");
  EXPECT_EQ(Tokens("a")[7].kind, Kind::end);
}

TEST(Tokens, BackslashesOfEscapeStrings) {
  EXPECT_EQ(said(R"(E'it\'s' a)"), "'it's' a");
  EXPECT_EQ(said(R"(e'a\\' b 'c\' d)"), R"('a\' b 'c\' d)");
  EXPECT_EQ(said(R"(E'a''\'b' c)"), "'a''b' c");
  EXPECT_EQ(said(R"(one'a\' b)"), R"(one 'a\' b)") << "only E itself takes them";
  EXPECT_EQ(said(R"(E'a\)"), "'a'");
}

TEST(Tokens, Comments) {
  EXPECT_EQ(said("a -- it's\nb --c\rd /* e's */ f /* g"), "a b d f");
  EXPECT_EQ(said("/* /* */ */ COMMIT /*/**/*/"), "commit");
  EXPECT_EQ(said("/*/ a */ b"), "b");
  EXPECT_EQ(said("/* films/*.csv */ SELECT 1"), "select '1'") << "SQLite does not nest them";
}

TEST(Tokens, SkipsWhatIsInParentheses) {
  const Tokens tokens("a (b (c), d) e");
  EXPECT_EQ(tokens.skip(0), 1u);
  EXPECT_TRUE(tokens.is_word(tokens.skip(1), "e"));
  EXPECT_EQ(Tokens("(a").skip(0), 2u);
}

}  // namespace
}  // namespace sluice::sql
