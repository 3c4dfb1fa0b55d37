#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::sql {

struct Token {
  enum class Kind : std::uint8_t { word, quoted, parameter, literal, sign, end };

  Kind kind = Kind::end;
  std::string text;  // without quotes; in lower case unless Case::kept applies; for a parameter, its number
};

// The tokens of a statement with the SQLite placeholders of ParsedSql::text. Blanks and comments are skipped, and so
// are the backslashes of PostgreSQL's E'...'. `$1` is a word. `quoted`: whether quoted identifiers and strings become
// lower case, as words do.
class Tokens {
 public:
  enum class Case : std::uint8_t { lower, kept };
  explicit Tokens(std::string_view sql, Case quoted = Case::lower) : sql_(sql), quoted_(quoted) {
    while (at_ < sql_.size()) step();
  }
  // Returns a token of Kind::end if `index` is out of range.
  [[nodiscard]] const Token& operator[](std::size_t index) const { return index < all_.size() ? all_[index] : end_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  [[nodiscard]] bool is_word(std::size_t i, std::string_view word) const {
    return (*this)[i].kind == Token::Kind::word && (*this)[i].text == word;
  }
  [[nodiscard]] bool is_sign(std::size_t i, std::string_view sign) const {
    return (*this)[i].kind == Token::Kind::sign && (*this)[i].text == sign;
  }
  [[nodiscard]] bool is_identifier(std::size_t i) const {
    return (*this)[i].kind == Token::Kind::word || (*this)[i].kind == Token::Kind::quoted;
  }
  // The index after the token at `i`, or, if that opens a parenthesis, after the matching closing one.
  [[nodiscard]] std::size_t skip(std::size_t i) const;

 private:
  void add(Token::Kind kind, std::string text) { all_.push_back({kind, std::move(text)}); }
  [[nodiscard]] char next() const { return at_ + 1 < sql_.size() ? sql_[at_ + 1] : '\0'; }
  void step();
  [[nodiscard]] std::size_t comment_end() const;
  void quoted(char close, bool escapes = false);  // `escapes`: backslashes escape, as in E'...'

  std::string_view sql_;
  Case quoted_;
  std::size_t at_ = 0;
  std::vector<Token> all_;
  const Token end_;
};

}  // namespace sluice::sql
