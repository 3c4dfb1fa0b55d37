#include "app/config/source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace sluice::app::config {
namespace {

// Of a longer line only the part around the error is shown.
constexpr std::size_t widest_line = 160;

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

bool is_word(char c) { return c == '_' || (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c)); }

// The bytes of the UTF-8 character that begins the text; 0 where it is malformed.
std::size_t character_size(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) return 0;
  }
  return size;
}

// As the file has it, but safe to show: one character of the result for each of the line's.
std::string printable(std::string_view line) {
  std::string shown;
  while (!line.empty()) {
    std::size_t size = character_size(line);
    auto byte = static_cast<unsigned char>(line[0]);
    bool control = size == 1 && (byte < 0x20 || byte == 0x7f);
    bool control_c1 = size == 2 && byte == 0xc2 && static_cast<unsigned char>(line[1]) < 0xa0;
    if (size == 1 && line[0] == '\t') {
      shown += ' ';
    } else if (size == 0 || control || control_c1) {
      shown += "\uFFFD";
    } else {
      shown += line.substr(0, size);
    }
    line.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return shown;
}

// The keys whose values are shown: statements, paths and names.
constexpr std::array<std::string_view, 21> shown_keys = {
    "before", "database", "delete",  "existing",  "expect",  "from", "get", "listen", "patch", "path", "post",
    "put",    "query",    "require", "returning", "returns", "root", "sql", "table",  "type",  "use"};

// Follows a statement or a requirement, and tells what of it may be shown: not its literals, unless they begin with a
// parameter, and no comments, where an apostrophe begins no literal.
class Literals {
 public:
  struct Step {
    std::size_t size;
    bool shows;
  };
  // Over what `rest` begins with.
  Step step(std::string_view rest) {
    if (!close_.empty()) {
      if (escapes_ && (rest[0] == '\\' || rest.starts_with("''"))) return {2, !hides_};
      // PostgreSQL nests comments and SQLite does not: what follows is hidden on both.
      if (close_ == "*/" && rest.starts_with("/*")) close_ = '\0';
      if (!rest.starts_with(close_)) return {1, !hides_};
      return {std::exchange(close_, {}).size(), true};
    }
    escapes_ = std::exchange(is_e_, !in_word_ && (rest[0] == 'E' || rest[0] == 'e')) && rest[0] == '\'';
    in_word_ = is_word(rest[0]);
    std::size_t open = 1;
    if (rest[0] == '\'') {
      close_ = "'";
      hides_ = !rest.substr(std::min(rest.find_first_not_of("%_*?", 1), rest.size())).starts_with(':');
      return {1, true};
    }
    if (rest.starts_with("--") || rest.starts_with("/*")) {
      close_ = rest[0] == '-' ? "\n" : "*/";
      open = 2;
    } else if (rest[0] == '$' && rest.size() > 1 && (rest[1] < '0' || rest[1] > '9')) {
      const auto end = std::ranges::find_if_not(rest.substr(1), [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c & 0x80) != 0;
      });
      if (end == rest.end() || *end != '$') return {1, true};
      close_ = std::string(rest.begin(), end + 1);  // of $tag$
      open = close_.size();
    }
    hides_ = true;
    return {open, true};
  }
  // In PostgreSQL's E'...', where a backslash takes the next character with it.
  [[nodiscard]] bool escapes() const { return !close_.empty() && escapes_; }
  [[nodiscard]] bool hides() const { return !close_.empty() && hides_; }
  [[nodiscard]] bool hides_literal() const { return hides() && close_ != "\n" && close_ != "*/"; }

 private:
  std::string close_;  // what ends the literal or the comment; empty: outside
  bool hides_ = false;
  bool escapes_ = false;
  bool in_word_ = false;  // the last character outside belongs to one
  bool is_e_ = false;     // which is E alone
};

// What a message may show of the text from `begin` to `end`: keys and punctuation. Every other character is a star,
// because a value may hold a secret whatever its key is: the key may be misspelt. Only the values of `shown_keys` are
// shown, without the literals in SQL and in requirements, unless those begin with a parameter, and booleans and short
// integers. The text may be no TOML.
std::string masked(std::string_view text, std::size_t begin, std::size_t end) {
  std::string shown;
  std::size_t at = 0;
  const auto take = [&](std::size_t size, bool show) {
    for (; size > 0 && at < end; --size, ++at) {
      if (at >= begin && (show || !continues(text[at]))) shown += show ? text[at] : '*';
    }
  };
  std::string_view key;
  std::string_view quote;  // of the string that is open
  std::string nested;      // '[' and '{' of the lists and inline tables that are open
  char before = 0;         // the last character that was neither space nor part of a word
  bool in_value = false;
  Literals literals;
  while (at < end) {
    const std::string_view rest = text.substr(at);
    const char c = rest[0];
    if (!quote.empty()) {
      const bool shows = std::ranges::find(shown_keys, key) != shown_keys.end();
      if (rest.starts_with(quote) || (c == '\n' && quote.size() == 1)) {
        take(c == '\n' ? 0 : quote.size(), true);
        quote = {};
        if (nested.empty()) key = {};
        continue;
      }
      if (c == '\\' && quote[0] == '"') {
        std::size_t size = 2;
        if (rest.starts_with(R"(\\)") && literals.escapes()) size += rest.substr(2).starts_with('\\') ? 2 : 1;
        take(size, shows && !literals.hides());
      } else {
        const auto [size, shown_too] = literals.step(rest);
        take(size, shows && shown_too);
      }
    } else if (c == '\n') {
      in_value = !nested.empty() && nested.back() == '[';
      if (nested.empty()) key = {};
      take(1, true);
    } else if (c == ' ' || c == '\t') {
      in_value |= !key.empty() && nested.empty();  // "key value", without the '='
      take(1, true);
    } else if (c == '#') {
      take(1, true);
      take(std::min(rest.find('\n'), rest.size()) - 1, false);
    } else if (c == '"' || c == '\'') {
      quote = rest.substr(0, rest.substr(0, 3) == std::string(3, c) ? 3 : 1);
      literals = {};
      if (!in_value) key = {};
      before = c;
      take(quote.size(), true);
    } else if (std::string_view("=:[]{},").contains(c)) {
      if (c == '=' || c == ':') in_value = true;
      if ((c == '[' || c == '{') && in_value && std::string_view("=[,").contains(before)) {
        nested += c;
        in_value = c == '[';
      } else if ((c == ']' || c == '}') && !nested.empty()) {
        nested.pop_back();
      } else if (c == ',' && !nested.empty()) {
        in_value = nested.back() == '[';
      }
      before = c;
      take(1, true);
    } else {
      const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r\n\"'#=:[]{},."));
      if (!in_value && !word.empty()) key = word;
      before = c;
      const bool shows =
          word == "true" || word == "false" || (word.size() <= 5 && word.find_first_not_of("-0123456789") == word.npos);
      take(std::max<std::size_t>(word.size(), 1), !in_value || (shows && !word.empty()));
    }
  }
  return shown;
}

}  // namespace

std::string without_literals(std::string message, std::string_view statement) {
  std::vector<std::string_view> hidden;
  const auto hide_part = [&](std::string_view part) {
    if (std::ranges::any_of(part, is_word)) hidden.push_back(part);
  };
  const auto hide = [&](std::string_view literal) {
    hide_part(literal);
    // For what E'...' has escaped, the message has another character.
    for (auto at = literal.find_first_of("\\'"); at != literal.npos; at = literal.find_first_of("\\'")) {
      hide_part(literal.substr(0, at));
      literal.remove_prefix(std::min(at + 2, literal.size()));
    }
    hide_part(literal);
  };
  Literals literals;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < statement.size();) {
    const bool inside = literals.hides_literal();
    const std::size_t size = literals.step(statement.substr(at)).size;
    if (inside && !literals.hides_literal()) hide(statement.substr(begin, at - begin));
    at += size;
    if (!inside) begin = at;
  }
  if (literals.hides_literal()) hide(statement.substr(begin));
  // The longest first: another may be a part of it.
  std::ranges::sort(hidden, std::ranges::greater(), &std::string_view::size);
  constexpr std::string_view mask = "***";
  for (const std::string_view literal : hidden) {
    if (literal.size() < 3) break;  // a word of the message; quoted, it is hidden below
    for (auto at = message.find(literal); at != message.npos; at = message.find(literal, at)) {
      const auto end = at + literal.size();
      const bool alone = (at == 0 || !is_word(message[at - 1])) && (end == message.size() || !is_word(message[end]));
      if (alone) message.replace(at, literal.size(), mask);
      at += alone ? mask.size() : 1;
    }
  }
  // PostgreSQL also quotes parts: the element of an array, the word of a JSON text.
  for (auto open = message.find('"'); open != message.npos;) {
    const auto close = message.find('"', open + 1);
    if (close == message.npos) break;
    const std::string part = message.substr(open + 1, close - open - 1);
    const bool hides = std::ranges::any_of(part, is_word) &&
                       std::ranges::any_of(hidden, [&](std::string_view literal) { return literal.contains(part); });
    if (hides) message.replace(open + 1, part.size(), mask);
    open = message.find('"', open + (hides ? mask.size() : part.size()) + 2);
  }
  return message;
}

std::uint32_t count_characters(std::string_view text) {
  return static_cast<std::uint32_t>(std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

Source::Source(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  lines_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') lines_.push_back(i + 1);
  }
}

std::string_view Source::line(std::uint32_t number) const {
  if (number == 0 || number > lines_.size()) return {};
  std::size_t begin = lines_[number - 1];
  std::size_t end = number < lines_.size() ? lines_[number] - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return std::string_view(text_).substr(begin, end - begin);
}

// The byte at a position; the text's end where there is none.
std::size_t Source::offset(Position position) const {
  if (position.line == 0 || position.line > lines_.size()) return text_.size();
  std::size_t at = lines_[position.line - 1];
  for (std::uint32_t column = 1; column < position.column && at < text_.size(); ++column) {
    ++at;
    while (at < text_.size() && continues(text_[at])) ++at;
  }
  return at;
}

Position Source::locate(Position string, std::uint32_t character) const {
  if (character == 0 || string.line == 0) return string;

  // Characters of the value -> characters of the literal, where a replaced ${NAME} counts as its first one.
  std::uint32_t wanted = character - 1;
  std::uint32_t decoded = wanted;
  for (const Substitution& one : substitutions_) {
    if (one.string != string || wanted < one.replaced_at) continue;
    decoded = wanted < one.replaced_at + one.replaced
                  ? one.written_at
                  : one.written_at + one.written + (wanted - one.replaced_at - one.replaced);
  }

  std::string_view rest = std::string_view(text_).substr(offset(string));
  if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return string;
  const bool escapes = rest[0] == '"';
  const bool multi_line = rest.starts_with(R"(""")") || rest.starts_with("'''");
  Position at = string;

  auto step = [&](std::size_t characters) {
    for (; characters > 0 && !rest.empty(); --characters) {
      bool line_break = rest[0] == '\n';
      std::size_t size = std::max<std::size_t>(character_size(rest), 1);
      rest.remove_prefix(size);
      at = line_break ? Position{at.line + 1, 1} : Position{at.line, at.column + 1};
    }
  };
  // A line's end counts as one character, however it is written.
  auto line_end = [&]() -> std::size_t { return rest.starts_with("\r\n") ? 2 : rest.starts_with("\n") ? 1 : 0; };
  // A backslash at the end of a line takes the white space up to the next text with it.
  auto skip_folded_lines = [&] {
    while (escapes && multi_line && rest.starts_with('\\')) {
      std::size_t next = rest.find_first_not_of(" \t\r", 1);
      if (next == rest.npos || rest[next] != '\n') return;
      step(1);
      while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')) step(1);
    }
  };

  step(multi_line ? 3 : 1);
  if (multi_line) step(line_end());
  for (skip_folded_lines(); decoded > 0 && !rest.empty(); --decoded, skip_folded_lines()) {
    if (escapes && rest[0] == '\\' && rest.size() > 1) {
      step(rest[1] == 'u' ? 6 : rest[1] == 'U' ? 10 : 2);
    } else {
      step(std::max<std::size_t>(line_end(), 1));
    }
  }
  return at;
}

std::string Source::render(const Diagnostic& diagnostic) const {
  const Position& position = diagnostic.position;
  if (position.line == 0) {
    std::string text = fmt::format("{}: error: {}\n", name_, printable(diagnostic.message));
    if (!diagnostic.hint.empty()) text += fmt::format("  = {}\n", printable(diagnostic.hint));
    return text;
  }

  const std::string_view whole = line(position.line);
  const auto begin_of_line = static_cast<std::size_t>(whole.data() - text_.data());
  std::string shown = whole.empty() ? "" : printable(masked(text_, begin_of_line, begin_of_line + whole.size()));
  std::uint32_t length = count_characters(shown);
  std::uint32_t column = std::clamp<std::uint32_t>(position.column, 1, length + 1);
  if (length > widest_line) {
    std::uint32_t first = column > widest_line / 2 ? column - static_cast<std::uint32_t>(widest_line / 2) : 1;
    auto byte_of = [&](std::uint32_t character) {  // from 1
      std::size_t byte = 0;
      for (std::uint32_t i = 1; i < character && byte < shown.size(); ++i)
        byte += character_size(std::string_view(shown).substr(byte));
      return byte;
    };
    std::size_t begin = byte_of(first);
    std::size_t end = byte_of(first + static_cast<std::uint32_t>(widest_line));
    bool cut_begin = first > 1;
    bool cut_end = end < shown.size();
    shown = fmt::format("{}{}{}", cut_begin ? "..." : "", std::string_view(shown).substr(begin, end - begin),
                        cut_end ? "..." : "");
    column = column - first + 1 + (cut_begin ? 3 : 0);
  }

  std::string number = std::to_string(position.line);
  std::string margin(number.size() + 2, ' ');
  std::string text =
      fmt::format("{}:{}:{}: error: {}\n", name_, position.line, position.column, printable(diagnostic.message));
  text += fmt::format("  {} | {}\n", number, shown);
  text += fmt::format("{} | {}^\n", margin, std::string(column - 1, ' '));
  if (!diagnostic.hint.empty()) text += fmt::format("{} = {}\n", margin, printable(diagnostic.hint));
  return text;
}

std::string Errors::text() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), most_shown); ++i) text += source.render(list[i]);
  if (list.size() > most_shown)
    text += fmt::format("{}: and {} more errors\n", source.name(), list.size() - most_shown);
  return text;
}

}  // namespace sluice::app::config
