#include "app/config/source.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace sluice::app::config {
namespace {

constexpr std::string_view mask = "***";
// If a line is longer, only the part around the error is shown.
constexpr std::size_t widest_line = 160;

bool is_word(char c) { return c == '_' || (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c)); }

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The length in bytes of the UTF-8 character at the beginning of the text; 0 if it is malformed.
std::size_t character_size(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) return 0;
  }
  return size;
}

// Makes the line safe to show. The result has one character for each character of the line.
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

// A literal or a comment in a statement, without its delimiters.
struct Hidden {
  std::size_t begin;
  std::size_t end;
  bool is_literal;
};

// The end of PostgreSQL's E'...' that begins at `at`.
std::size_t end_of_escaped(std::string_view statement, std::size_t at, std::string_view backslash) {
  while (at < statement.size()) {
    const std::string_view rest = statement.substr(at);
    if (rest.starts_with(backslash)) {
      const std::size_t size = backslash.size();
      at += size + (rest.substr(size).starts_with(backslash) ? size : 1);
    } else if (rest[0] == '\'' && !rest.starts_with("''")) {
      return at;
    } else {
      at += rest[0] == '\'' ? 2 : 1;
    }
  }
  return statement.size();
}

// A literal or comment without an end extends to the end of the statement. A comment that contains another comment does
// too, because PostgreSQL nests comments and SQLite does not. Names in double quotes are not literals. `backslash`: how
// the text writes a backslash of the statement.
std::vector<Hidden> hidden_in(std::string_view statement, std::string_view backslash = "\\") {
  std::vector<Hidden> all;
  for (std::size_t at = 0; at < statement.size();) {
    const std::string_view rest = statement.substr(at);
    std::string_view open = rest.substr(0, 1);
    std::string_view close = open == "'" || open == "\"" ? open : "";
    if (rest.starts_with("--")) close = "\n";
    if (rest.starts_with("/*")) close = "*/";
    const bool is_comment = close == "\n" || close == "*/";
    if (is_comment) open = rest.substr(0, 2);
    const auto tag = std::ranges::find_if_not(rest.substr(1), is_word);
    if (open == "$" && tag != rest.end() && *tag == '$' && (rest[1] < '0' || rest[1] > '9')) {
      close = open = {rest.begin(), tag + 1};
    }
    const bool escapes =
        close == "'" && at > 0 && (statement[at - 1] | 0x20) == 'e' && (at == 1 || !is_word(statement[at - 2]));
    at += open.size();
    if (close.empty()) continue;
    std::size_t end =
        escapes ? end_of_escaped(statement, at, backslash) : std::min(statement.find(close, at), statement.size());
    const bool nests = close == "*/" && statement.substr(at, end - at).contains("/*");
    if (nests) end = statement.size();
    if (close != "\"" || end == statement.size()) all.push_back({at, end, !is_comment || nests});
    at = end + close.size();
  }
  return all;
}

}  // namespace

std::string without_literals(std::string message, std::string_view statement) {
  std::vector<std::string_view> hidden;
  const auto hide = [&](std::string_view part) {
    if (std::ranges::any_of(part, is_word)) hidden.push_back(part);
  };
  for (const Hidden& one : hidden_in(statement)) {
    if (!one.is_literal) continue;
    std::string_view literal = statement.substr(one.begin, one.end - one.begin);
    hide(literal);
    // The message has the decoded characters in place of the escapes of E'...'.
    for (auto at = literal.find_first_of("\\'"); at != literal.npos; at = literal.find_first_of("\\'")) {
      hide(literal.substr(0, at));
      literal.remove_prefix(std::min(at + 2, literal.size()));
    }
    hide(literal);
  }
  // The longest first, because a shorter literal may be part of a longer one.
  std::ranges::sort(hidden, std::ranges::greater(), &std::string_view::size);
  for (const std::string_view literal : hidden) {
    // So short a literal could be an ordinary word of the message. If it is quoted, the code below hides it.
    if (literal.size() < 3) break;
    for (auto at = message.find(literal); at != message.npos; at = message.find(literal, at)) {
      const auto end = at + literal.size();
      const bool alone = (at == 0 || !is_word(message[at - 1])) && (end == message.size() || !is_word(message[end]));
      if (alone) message.replace(at, literal.size(), mask);
      at += alone ? mask.size() : 1;
    }
  }
  // PostgreSQL also quotes parts of literals, such as an element of an array or a word of a JSON text.
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

std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  constexpr std::size_t shortest = 4;
  for (const std::string& secret : secrets) {
    if (secret.size() < shortest) continue;
    for (auto at = text.find(secret); at != text.npos; at = text.find(secret, at + mask.size())) {
      text.replace(at, secret.size(), mask);
    }
  }
  return text;
}

std::uint32_t count_characters(std::string_view text) {
  return static_cast<std::uint32_t>(std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

std::uint32_t Source::include(std::string name, std::string text) {
  files_.emplace_back(std::move(text));
  names_.names.push_back(std::move(name));
  return count() - 1;
}

Source::File::File(std::string content) : text(std::move(content)) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  lines.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') lines.push_back(i + 1);
  }
}

std::string_view Source::File::line(std::uint32_t number) const {
  if (number == 0 || number > lines.size()) return {};
  std::size_t begin = lines[number - 1];
  std::size_t end = number < lines.size() ? lines[number] - 1 : text.size();
  if (end > begin && text[end - 1] == '\r') --end;
  return std::string_view(text).substr(begin, end - begin);
}

// The offset of a position's byte; the end of the text if the position does not exist.
std::size_t Source::File::offset(Position position) const {
  if (position.line == 0 || position.line > lines.size()) return text.size();
  std::size_t at = lines[position.line - 1];
  for (std::uint32_t column = 1; column < position.column && at < text.size(); ++column) {
    ++at;
    while (at < text.size() && continues(text[at])) ++at;
  }
  return at;
}

Position Source::locate(Position string, std::uint32_t character) const {
  if (character == 0 || string.line == 0) return string;

  // Maps characters of the value to characters of the literal. All of a replaced ${NAME} maps to its first character.
  std::uint32_t wanted = character - 1;
  std::uint32_t decoded = wanted;
  for (const Substitution& one : substitutions_) {
    if (one.string != string || wanted < one.replaced_at) continue;
    decoded = wanted < one.replaced_at + one.replaced
                  ? one.written_at
                  : one.written_at + one.written + (wanted - one.replaced_at - one.replaced);
  }

  const File& file = files_[string.file];
  std::string_view rest = std::string_view(file.text).substr(file.offset(string));
  if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return string;
  const bool escapes = rest[0] == '"';
  const bool multi_line = rest.starts_with(R"(""")") || rest.starts_with("'''");
  Position at = string;

  auto step = [&](std::size_t characters) {
    for (; characters > 0 && !rest.empty(); --characters) {
      bool line_break = rest[0] == '\n';
      std::size_t size = std::max<std::size_t>(character_size(rest), 1);
      rest.remove_prefix(size);
      at = line_break ? Position{at.line + 1, 1, at.file} : Position{at.line, at.column + 1, at.file};
    }
  };
  // A line break counts as one character, whether it is LF or CRLF.
  auto line_end = [&]() -> std::size_t { return rest.starts_with("\r\n") ? 2 : rest.starts_with("\n") ? 1 : 0; };
  // A backslash at the end of a line removes the white space up to the next text.
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

void Source::take(std::vector<WrittenValue> values, std::uint32_t file) {
  std::ranges::sort(values, {}, &WrittenValue::begin);
  files_[file].values = std::move(values);
}

// The line with hidden values, literals and comments masked. Empty if they cannot be determined. `in_place`: the masked
// line has as many characters as the line. `strict`: each hidden part is `***`, also the default of a ${NAME:-default}.
std::string Source::File::masked(std::uint32_t number, Masking how) const {
  const std::string_view shown_line = line(number);
  if (!values || shown_line.empty()) return {};
  const auto begin = static_cast<std::size_t>(shown_line.data() - text.data());
  const std::size_t end = begin + shown_line.size();
  std::vector<std::size_t> characters;
  for (std::size_t at = begin; at <= end; ++at) {
    if (at == end || !continues(text[at])) characters.push_back(at);
  }
  const auto byte_of = [&](Position position) {
    return position.line == number ? characters[std::min<std::size_t>(position.column, characters.size()) - 1]
                                   : offset(position);
  };
  constexpr char of_toml = ' ';
  constexpr char of_value = 'v';
  constexpr char hidden = '*';
  std::string marks(shown_line.size(), of_toml);
  const auto mark = [&](std::size_t from, std::size_t to, char what) {
    for (std::size_t at = std::max(from, begin); at < std::min(to, end); ++at) marks[at - begin] = what;
  };
  const auto first = std::ranges::partition_point(*values, [&](const auto& one) { return one.end.line < number; });
  for (auto at = first; at != values->end() && at->begin.line <= number; ++at) {
    const WrittenValue& value = *at;
    const std::size_t from = byte_of(value.begin);
    const std::size_t to = byte_of(value.end);
    const std::string_view written = std::string_view(text).substr(from, to - from);
    const bool is_long = written.starts_with(R"(""")") || written.starts_with("'''");
    const std::size_t quotes = is_long ? 3 : written.starts_with('"') || written.starts_with('\'') ? 1 : 0;
    mark(from, to, of_value);
    if (!value.is_shown) {
      mark(from + quotes, to - quotes, hidden);
      continue;
    }
    const std::string_view backslash = written.starts_with('"') ? R"(\\)" : R"(\)";
    for (const Hidden& one : hidden_in(written.substr(quotes, written.size() - 2 * quotes), backslash)) {
      mark(from + quotes + one.begin, from + quotes + one.end, hidden);
    }
    for (auto name = written.find("${"); how == Masking::strict && name != written.npos;
         name = written.find("${", name + 2)) {
      const auto preset = std::min(written.find(":-", name), written.size() - 2);
      mark(from + preset + 2, from + std::min(written.find('}', preset), written.size() - quotes), hidden);
    }
  }
  std::string shown;
  for (std::size_t at = begin; at < end; ++at) {
    if (text[at] == '#' && marks[at - begin] == of_toml) mark(at + 1, end, hidden);
    const bool begins = at == begin || marks[at - begin - 1] != hidden;
    if (marks[at - begin] != hidden) {
      shown += text[at];
    } else if (how == Masking::strict) {
      shown += begins ? mask : "";
    } else if (!continues(text[at])) {
      shown += '*';
    }
  }
  return shown;
}

std::string Source::masked() const {
  std::string all;
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (count() > 1) all += fmt::format("{}# {}\n", i == 0 ? "" : "\n", names_.names[i]);
    for (std::uint32_t line = 1; line <= files_[i].lines.size(); ++line) {
      all += printable(files_[i].masked(line, File::Masking::strict)) + "\n";
    }
  }
  return without_secrets(std::move(all), secrets_);
}

std::string Source::render(const Diagnostic& diagnostic) const {
  const Position& position = diagnostic.position;
  const std::string message = printable(without_secrets(diagnostic.message, secrets_));
  const std::string hint = printable(without_secrets(diagnostic.hint, secrets_));
  std::string text = names_.of(position);
  if (position.line != 0) text += fmt::format(":{}:{}", position.line, position.column);
  text += fmt::format(": error: {}\n", message);
  std::string shown = printable(files_[position.file].masked(position.line, File::Masking::in_place));
  if (shown.empty()) {
    if (!hint.empty()) text += fmt::format("  = {}\n", hint);
    return text;
  }

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
  text += fmt::format("  {} | {}\n", number, shown);
  text += fmt::format("{} | {}^\n", margin, std::string(column - 1, ' '));
  if (!hint.empty()) text += fmt::format("{} = {}\n", margin, hint);
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
