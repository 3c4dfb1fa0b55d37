#include "sql/compared.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::sql {
namespace {

enum class Kind : std::uint8_t { word, quoted, parameter, literal, sign, end };

struct Token {
  Kind kind = Kind::end;
  std::string text;  // a word in lower case, an identifier without its quotes, a parameter's number
};

// Behind these a name is a column's, and not what the value before it is called.
constexpr std::array<std::string_view, 27> before_value{
    "select", "distinct", "all",  "where",  "and",       "or",     "not",    "on",    "set",
    "having", "when",     "then", "else",   "case",      "by",     "in",     "like",  "glob",
    "is",     "between",  "from", "values", "returning", "escape", "offset", "limit", "replace"};
// Before these a value is at its end.
constexpr std::array<std::string_view, 22> after_value{
    "and",    "or",    "where", "order", "group",  "limit", "returning", "then", "from", "having", "on",
    "offset", "union", "else",  "end",   "except", "when",  "intersect", "join", "left", "inner",  "as"};
constexpr std::array<std::string_view, 8> comparisons{"=", "==", "<>", "!=", "<", "<=", ">", ">="};

template <std::size_t size>
bool is_among(const std::array<std::string_view, size>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

class Tokens {
 public:
  explicit Tokens(std::string_view sql) : sql_(sql) {
    while (at_ < sql_.size()) step();
  }
  // The tokens' own end, beyond them.
  [[nodiscard]] const Token& operator[](std::size_t index) const { return index < all_.size() ? all_[index] : end_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  void add(Kind kind, std::string text) { all_.push_back({kind, std::move(text)}); }
  [[nodiscard]] char next() const { return at_ + 1 < sql_.size() ? sql_[at_ + 1] : '\0'; }

  void step() {
    const char c = sql_[at_];
    if (std::string_view(" \t\r\n\f\v").contains(c)) {
      ++at_;
    } else if (c == '-' && next() == '-') {
      at_ = std::min(sql_.find('\n', at_), sql_.size());
    } else if (c == '/' && next() == '*') {
      const auto end = sql_.find("*/", at_ + 2);
      at_ = end == sql_.npos ? sql_.size() : end + 2;
    } else if (c == '\'' || c == '"' || c == '`' || c == '[') {
      quoted(c == '[' ? ']' : c);
    } else if (c == '?' && is_digit(next())) {
      const std::size_t begin = ++at_;
      while (at_ < sql_.size() && is_digit(sql_[at_])) ++at_;
      add(Kind::parameter, std::string(sql_.substr(begin, at_ - begin)));
    } else if (is_name(c)) {
      const std::size_t begin = at_;
      while (at_ < sql_.size() && (is_name(sql_[at_]) || (is_digit(c) && sql_[at_] == '.'))) ++at_;
      add(is_digit(c) ? Kind::literal : Kind::word, lower(sql_.substr(begin, at_ - begin)));
    } else {
      const std::string_view two = sql_.substr(at_, 2);
      const bool joined = is_among(comparisons, two) || two == "||" || two == "->" || two == "<<" || two == ">>";
      add(Kind::sign, std::string(two.substr(0, joined ? 2 : 1)));
      at_ += joined ? 2 : 1;
    }
  }
  void quoted(char close) {
    const bool is_text = sql_[at_] == '\'';
    std::string text;
    for (++at_; at_ < sql_.size(); ++at_) {
      if (sql_[at_] == close) {
        if (close == ']' || next() != close) break;
        ++at_;
      }
      text += sql_[at_];
    }
    at_ = std::min(at_ + 1, sql_.size());
    add(is_text ? Kind::literal : Kind::quoted, is_text ? std::string{} : lower(text));
  }

  std::string_view sql_;
  std::size_t at_ = 0;
  std::vector<Token> all_;
  const Token end_;
};

class Reader {
 public:
  explicit Reader(std::string_view sql) : tokens_(sql) {}

  Compared read() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (const std::string_view other : {"with", "union", "except", "intersect"}) {
        if (is_word(i, other)) return {};
      }
      if (is_identifier(i)) note_name(i);
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (is_word(i, "into")) take_insert(i + 1);
      if (is_column(i)) take_comparison(i);
      if (tokens_[i].kind == Kind::parameter) take_reversed(i);
    }
    std::erase_if(found_.pairs,
                  [&](const auto& pair) { return std::ranges::find(aliases_, pair.column) != aliases_.end(); });
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_identifier(std::size_t i) const {
    return tokens_[i].kind == Kind::word || tokens_[i].kind == Kind::quoted;
  }
  [[nodiscard]] bool is_word(std::size_t i, std::string_view word) const {
    return tokens_[i].kind == Kind::word && tokens_[i].text == word;
  }
  [[nodiscard]] bool is_sign(std::size_t i, std::string_view sign) const {
    return tokens_[i].kind == Kind::sign && tokens_[i].text == sign;
  }

  void note_name(std::size_t i) {
    found_.names.push_back(tokens_[i].text);
    if (i == 0 || is_sign(i - 1, ".")) return;
    const Token& before = tokens_[i - 1];
    const bool may_be_alias = before.kind == Kind::sign   ? before.text == ")"
                              : before.kind == Kind::word ? !is_among(before_value, before.text)
                                                          : true;
    if (may_be_alias) aliases_.push_back(tokens_[i].text);
  }

  // A name, maybe qualified, with nothing before it that makes a part of an expression of it.
  [[nodiscard]] bool is_column(std::size_t i) const {
    if (!is_identifier(i) || is_sign(i + 1, ".") || is_sign(i + 1, "(")) return false;
    while (i >= 2 && is_sign(i - 1, ".") && is_identifier(i - 2)) i -= 2;
    if (i == 0) return false;
    const Token& before = tokens_[i - 1];
    if (before.kind == Kind::sign) return before.text == "(" || before.text == ",";
    return before.kind == Kind::word && is_among(before_value, before.text);
  }
  [[nodiscard]] bool ends_value(std::size_t i) const {
    const Token& token = tokens_[i];
    if (token.kind == Kind::end) return true;
    if (token.kind == Kind::sign) return token.text == ")" || token.text == "," || token.text == ";";
    return token.kind == Kind::word && is_among(after_value, token.text);
  }
  void add(std::size_t parameter, std::string_view column) {
    const std::string& digits = tokens_[parameter].text;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && number != 0) found_.pairs.push_back({number - 1, std::string(column)});
  }

  void take_comparison(std::size_t i) {
    const std::string& column = tokens_[i].text;
    std::size_t at = i + 1;
    if (is_word(at, "not")) ++at;
    if (is_word(at, "in") && is_sign(at + 1, "(")) {
      for (at += 2; tokens_[at].kind == Kind::parameter && ends_value(at + 1); at += 2) {
        add(at, column);
        if (!is_sign(at + 1, ",")) return;
      }
    } else if (is_word(at, "between")) {
      if (tokens_[at + 1].kind == Kind::parameter && is_word(at + 2, "and")) add(at + 1, column);
      for (++at; at < tokens_.size() && !is_word(at, "and"); ++at) {
      }
      if (tokens_[at + 1].kind == Kind::parameter && ends_value(at + 2)) add(at + 1, column);
    } else if (tokens_[at].kind == Kind::sign && is_among(comparisons, tokens_[at].text)) {
      if (tokens_[at + 1].kind == Kind::parameter && ends_value(at + 2)) add(at + 1, column);
    }
  }
  void take_reversed(std::size_t i) {
    if (i == 0 || tokens_[i + 1].kind != Kind::sign || !is_among(comparisons, tokens_[i + 1].text)) return;
    const Token& before = tokens_[i - 1];
    const bool begins = before.kind == Kind::sign ? before.text == "(" || before.text == ","
                                                  : before.kind == Kind::word && is_among(before_value, before.text);
    std::size_t at = i + 2;
    while (is_identifier(at) && is_sign(at + 1, ".")) at += 2;
    if (begins && is_identifier(at) && ends_value(at + 1)) add(i, tokens_[at].text);
  }
  // INTO t (a, b) VALUES (:x, :y), (...)
  void take_insert(std::size_t at) {
    while (at < tokens_.size() && !is_sign(at, "(")) {
      if (!is_identifier(at) && !is_sign(at, ".")) return;
      if (is_word(at, "values") || is_word(at, "select") || is_word(at, "default")) return;
      ++at;
    }
    std::vector<std::string> columns;
    for (++at; is_identifier(at); at += 2) {
      columns.push_back(tokens_[at].text);
      if (!is_sign(at + 1, ",")) {
        ++at;
        break;
      }
    }
    if (!is_sign(at, ")") || !is_word(at + 1, "values")) return;
    for (at += 2; is_sign(at, "(");) {
      std::size_t column = 0;
      std::size_t depth = 1;
      for (++at; at < tokens_.size() && depth != 0; ++at) {
        const bool is_first = is_sign(at - 1, "(") || is_sign(at - 1, ",");
        if (depth == 1 && is_first && tokens_[at].kind == Kind::parameter && column < columns.size() &&
            (is_sign(at + 1, ",") || is_sign(at + 1, ")"))) {
          add(at, columns[column]);
        }
        if (is_sign(at, "(")) ++depth;
        if (is_sign(at, ")")) --depth;
        if (depth == 1 && is_sign(at, ",")) ++column;
      }
      if (!is_sign(at, ",")) return;
      ++at;
    }
  }

  const Tokens tokens_;
  Compared found_;
  std::vector<std::string> aliases_;
};

}  // namespace

Compared compared_columns(std::string_view statement) { return Reader(statement).read(); }

}  // namespace sluice::sql
