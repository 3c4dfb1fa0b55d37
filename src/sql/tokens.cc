#include "sql/tokens.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"

namespace sluice::sql {
namespace {

using Kind = Token::Kind;

constexpr std::array<std::string_view, 9> double_signs{"==", "<>", "!=", "<=", ">=", "||", "->", "<<", ">>"};

bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

}  // namespace

std::size_t Tokens::skip(std::size_t i) const {
  std::size_t depth = 0;
  do {
    if (is_sign(i, "(")) ++depth;
    if (is_sign(i, ")") && depth != 0) --depth;
    ++i;
  } while (depth != 0 && i < size());
  return i;
}

void Tokens::step() {
  const char c = sql_[at_];
  if (std::string_view(" \t\r\n\f\v").contains(c)) {
    ++at_;
  } else if (c == '-' && next() == '-') {
    at_ = std::min(sql_.find_first_of("\r\n", at_), sql_.size());
  } else if (c == '/' && next() == '*') {
    at_ = comment_end();
  } else if (c == '\'' || c == '"' || c == '`' || c == '[') {
    quoted(c == '[' ? ']' : c);
  } else if (c == '?' && is_digit(next())) {
    const std::size_t begin = ++at_;
    while (at_ < sql_.size() && is_digit(sql_[at_])) ++at_;
    add(Kind::parameter, std::string(sql_.substr(begin, at_ - begin)));
  } else if (is_word_part(c)) {
    const std::size_t begin = at_;
    while (at_ < sql_.size() && (is_word_part(sql_[at_]) || (is_digit(c) && sql_[at_] == '.'))) ++at_;
    const std::string_view word = sql_.substr(begin, at_ - begin);
    if ((word == "E" || word == "e") && at_ < sql_.size() && sql_[at_] == '\'') return quoted('\'', true);
    add(is_digit(c) ? Kind::literal : Kind::word, to_lower(word));
  } else {
    const std::string_view two = sql_.substr(at_, 2);
    const std::size_t size = sql_.substr(at_).starts_with("->>")                          ? 3
                             : std::ranges::find(double_signs, two) != double_signs.end() ? 2
                                                                                          : 1;
    add(Kind::sign, std::string(sql_.substr(at_, size)));
    at_ += size;
  }
}

// PostgreSQL nests comments, and SQLite does not. If the nesting never closes, the text is read by SQLite's rule.
std::size_t Tokens::comment_end() const {
  std::size_t depth = 1;
  for (auto at = at_ + 2; at < sql_.size(); ++at) {
    const std::string_view two = sql_.substr(at, 2);
    if (two != "/*" && two != "*/") continue;
    depth += two == "/*" ? 1 : -1;
    if (depth == 0) return at + 2;
    ++at;
  }
  const auto end = sql_.find("*/", at_ + 2);
  return end == sql_.npos ? sql_.size() : end + 2;
}

void Tokens::quoted(char close, bool escapes) {
  const bool is_text = sql_[at_] == '\'';
  std::string text;
  for (++at_; at_ < sql_.size(); ++at_) {
    if (escapes && sql_[at_] == '\\') {
      ++at_;
      if (at_ == sql_.size()) break;
    } else if (sql_[at_] == close) {
      if (close == ']' || next() != close) break;
      ++at_;
    }
    text += sql_[at_];
  }
  at_ = std::min(at_ + 1, sql_.size());
  add(is_text ? Kind::literal : Kind::quoted, quoted_ == Case::lower ? to_lower(text) : std::move(text));
}

}  // namespace sluice::sql
