#include "sql/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/ascii.h"

namespace sluice::sql {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }
bool is_identifier_start(char c) { return is_name_start(c) || static_cast<unsigned char>(c) >= 0x80; }
// Both databases allow a dollar sign inside an identifier, so `a$1` contains no placeholder.
bool is_identifier(char c) { return is_identifier_start(c) || is_digit(c) || c == '$'; }

// Each scan_* begins at the construct's first byte and ends after its last. On failure it returns false and sets
// `error_`.
class Lexer {
 public:
  Lexer(std::string_view sql, PlaceholderStyle style) : sql_(sql), style_(style) {}

  Result<ParsedSql> run() {
    if (sql_.size() > statement_max_bytes)
      return std::unexpected(Error{Failure::statement, {}, "the statement is too long"});
    if (const auto nul = sql_.find('\0'); nul != sql_.npos) {
      refuse(nul, "a NUL byte in the statement");
      return std::unexpected(std::move(*error_));
    }
    while (!error_ && at_ < sql_.size()) step();
    if (!error_ && significant_ == 0) refuse(0, "the statement is empty");
    if (error_) return std::unexpected(std::move(*error_));
    parsed_.text.resize(significant_);
    return std::move(parsed_);
  }

 private:
  bool postgres() const { return style_ == PlaceholderStyle::dollar; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0'; }

  bool refuse(std::size_t offset, std::string_view why) {
    if (!error_) error_ = Error{Failure::statement, {}, std::string(why), character_position(sql_, offset)};
    return false;
  }

  void step() {
    const std::size_t begin = at_;
    const char c = peek();
    if (is_space(c)) {
      ++at_;
      return blank(begin);
    }
    if (c == '-' && peek(1) == '-') {
      scan_line_comment();
      return blank(begin);
    }
    if (c == '/' && peek(1) == '*') {
      if (scan_block_comment()) blank(begin);
      return;
    }
    if (ended_) {
      refuse(begin, "more than one statement; an endpoint runs exactly one");
      return;
    }
    if (c == ';') {
      ended_ = true;
      ++at_;
      return;
    }
    if (scan_token(c)) copy(begin);
  }

  // Returns true for a token that is copied unchanged.
  bool scan_token(char c) {
    switch (c) {
      case '\'':
        return scan_quoted('\'', "a string that does not end");
      case '"':
        return scan_quoted('"', "a quoted identifier that does not end");
      case '`':
        if (!postgres()) return scan_quoted('`', "a quoted identifier that does not end");
        break;
      case '[':
        if (!postgres()) return scan_bracketed();
        break;
      case '?':
        if (!postgres()) return refuse(at_, "a parameter is written :name, not with a question mark");
        break;
      case '@':
        if (!postgres() && is_identifier(peek(1))) return refuse(at_, "a parameter is written :name, not @name");
        break;
      case '$':
        return scan_dollar();
      case ':':
        return scan_colon();
      default:
        break;
    }
    if (is_identifier_start(c)) return scan_word();
    if (is_digit(c)) {
      while (is_name(peek()) || peek() == '.') ++at_;
      return true;
    }
    ++at_;
    return true;
  }

  // A doubled quote is one quote of the text.
  bool scan_quoted(char quote, std::string_view unterminated) {
    const std::size_t begin = at_++;
    for (;;) {
      const auto found = sql_.find(quote, at_);
      if (found == sql_.npos) return refuse(begin, unterminated);
      at_ = found + 1;
      if (peek() != quote) {
        note_quoted_names(begin);
        return true;
      }
      ++at_;
    }
  }

  // Records the :names in the quoted text that began at `begin` and has just ended. A colon that belongs to a cast, or
  // to the text before it, begins no name.
  void note_quoted_names(std::size_t begin) {
    const std::size_t end = at_ - 1;
    for (std::size_t colon = sql_.find(':', begin); colon < end; colon = sql_.find(':', colon + 1)) {
      const char before = sql_[colon - 1];
      if (before == ':' || is_identifier(before) || !is_name_start(sql_[colon + 1])) continue;
      std::size_t after = colon + 1;
      while (is_name(sql_[after])) ++after;
      parsed_.quoted.push_back({.name = std::string(sql_.substr(colon + 1, after - colon - 1)),
                                .source_begin = static_cast<std::uint32_t>(colon),
                                .before = sql_.substr(begin + 1, colon - begin - 1),
                                .after = sql_.substr(after, end - after)});
    }
  }

  // PostgreSQL's E'...': a backslash escapes the next byte, also in the string's parts after a line break.
  bool scan_escape_string() {
    const std::size_t whole = at_;
    do {
      const std::size_t begin = at_++;
      for (;;) {
        if (at_ >= sql_.size()) return refuse(whole, "a string that does not end");
        const char c = sql_[at_++];
        if (c == '\\') {
          ++at_;
        } else if (c == '\'') {
          if (peek() != '\'') break;
          ++at_;
        }
      }
      note_quoted_names(begin);
    } while (continues());
    return true;
  }

  // Moves to a string's next part, if one follows after a line break. Blanks and line comments may separate the parts.
  bool continues() {
    const std::size_t end = at_;
    bool line_break = false;
    while (is_space(peek()) || (peek() == '-' && peek(1) == '-')) {
      if (peek() == '-') {
        scan_line_comment();
      } else {
        line_break |= peek() == '\n' || peek() == '\r';
        ++at_;
      }
    }
    if (line_break && peek() == '\'') return true;
    at_ = end;
    return false;
  }

  bool scan_bracketed() {
    const auto found = sql_.find(']', at_);
    if (found == sql_.npos) return refuse(at_, "a quoted identifier that does not end");
    at_ = found + 1;
    return true;
  }

  void scan_line_comment() {
    const auto found = sql_.find_first_of(postgres() ? "\r\n" : "\n", at_);
    at_ = found == sql_.npos ? sql_.size() : found;
  }

  bool scan_block_comment() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (at_ < sql_.size()) {
      if (peek() == '*' && peek(1) == '/') {
        at_ += 2;
        if (--depth == 0) return true;
      } else if (peek() == '/' && peek(1) == '*' && (depth == 0 || postgres())) {
        at_ += 2;
        ++depth;
      } else {
        ++at_;
      }
    }
    return refuse(begin, "a comment that does not end");
  }

  bool scan_word() {
    const std::size_t begin = at_;
    while (is_identifier(peek())) ++at_;
    const bool escape = at_ - begin == 1 && (sql_[begin] == 'e' || sql_[begin] == 'E');
    if (postgres() && escape && peek() == '\'') return scan_escape_string();
    return true;
  }

  bool scan_dollar() {
    if (!postgres()) {
      if (is_identifier(peek(1))) return refuse(at_, "a parameter is written :name, not with a dollar");
      ++at_;
      return true;
    }
    if (is_digit(peek(1))) return refuse(at_, "a parameter is written :name, not with a dollar");
    std::size_t end = at_ + 1;
    while (end < sql_.size() && sql_[end] != '$' && is_identifier(sql_[end])) ++end;
    if (end >= sql_.size() || sql_[end] != '$') {
      ++at_;  // not a dollar quote; PostgreSQL reports any error
      return true;
    }
    const std::string_view tag = sql_.substr(at_, end + 1 - at_);
    const auto found = sql_.find(tag, end + 1);
    if (found == sql_.npos) return refuse(at_, "a dollar-quoted string that does not end");
    at_ = found + tag.size();
    return true;
  }

  bool scan_colon() {
    const std::size_t begin = at_;
    if (peek(1) == ':' || peek(1) == '=') {
      at_ += 2;
      return true;
    }
    if (!is_name_start(peek(1))) {  // an array slice: a[1:2]
      ++at_;
      return true;
    }
    ++at_;
    while (is_name(peek())) ++at_;
    add_placeholder(begin, sql_.substr(begin + 1, at_ - begin - 1));
    return false;
  }

  void add_placeholder(std::size_t begin, std::string_view name) {
    auto& names = parsed_.names;
    auto known = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      // The smaller of the two databases' limits (SQLite's).
      if (names.size() == 32'766) {
        refuse(begin, "too many parameters");
        return;
      }
      names.emplace_back(name);
    }
    std::string& text = parsed_.text;
    // "LIMIT:n" must not become the identifier LIMIT$1.
    if (!text.empty() && is_identifier(text.back())) text.push_back(' ');
    const auto text_begin = static_cast<std::uint32_t>(text.size());
    text.push_back(postgres() ? '$' : '?');
    text += std::to_string(index + 1);
    parsed_.placeholders.push_back({text_begin, static_cast<std::uint32_t>(text.size()),
                                    static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)});
    significant_ = text.size();
  }

  void copy(std::size_t begin) {
    parsed_.text.append(sql_.substr(begin, at_ - begin));
    significant_ = parsed_.text.size();
  }
  void blank(std::size_t begin) {
    if (!ended_) parsed_.text.append(sql_.substr(begin, at_ - begin));
  }

  std::string_view sql_;
  PlaceholderStyle style_;
  std::size_t at_ = 0;
  std::size_t significant_ = 0;  // size of the text up to its last token
  bool ended_ = false;           // the semicolon has been seen
  ParsedSql parsed_;
  std::optional<Error> error_;
};

}  // namespace

std::uint32_t ParsedSql::source_offset(std::uint32_t offset) const {
  const auto after = std::upper_bound(placeholders.begin(), placeholders.end(), offset,
                                      [](std::uint32_t value, const Placeholder& p) { return value < p.begin; });
  if (after == placeholders.begin()) return offset;
  const Placeholder& before = *std::prev(after);
  return offset < before.end ? before.source_begin : before.source_end + (offset - before.end);
}

Result<ParsedSql> parse_parameters(std::string_view sql, PlaceholderStyle style) { return Lexer(sql, style).run(); }

bool fits(ParameterType type, std::string_view text) {
  const auto is_all_of_a = [text](auto value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      if (!std::isfinite(value)) return false;  // "nan" and "inf" are not decimal numbers
    }
    return error == std::errc{} && end == text.data() + text.size();
  };
  switch (element_of(type)) {
    case ParameterType::text:
      return true;
    case ParameterType::integer:
      return is_all_of_a(std::int64_t{});
    case ParameterType::real:
      return is_all_of_a(double{});
    case ParameterType::boolean: {
      constexpr std::array<std::string_view, 6> words{"true", "false", "t", "f", "1", "0"};
      return std::ranges::find(words, text) != words.end();
    }
    case ParameterType::bytes:
      return text.starts_with("\\x") && text.size() % 2 == 0 &&
             text.find_first_not_of("0123456789abcdefABCDEF", 2) == text.npos;
    default:
      break;
  }
  return false;
}

std::uint32_t character_position(std::string_view sql, std::size_t byte_offset) {
  const std::string_view before = sql.substr(0, byte_offset);
  return 1 + static_cast<std::uint32_t>(std::count_if(
                 before.begin(), before.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t byte_offset(std::string_view sql, std::uint32_t character_position) {
  std::uint32_t characters = 0;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if ((static_cast<unsigned char>(sql[i]) & 0xC0) != 0x80 && ++characters == character_position) return i;
  }
  return character_position == 0 ? 0 : sql.size();
}

}  // namespace sluice::sql
