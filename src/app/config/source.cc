#include "app/config/source.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/credentials.h"

namespace sluice::app::config {
namespace {

// Of a longer line only the part around the error is shown.
constexpr std::size_t widest_line = 160;

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

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

constexpr std::string_view quotes = "\"'";

// Where the TOML string around `at` ends. Outside of strings: the next white space or quote.
std::size_t end_of_string(std::string_view line, std::size_t at) {
  char quote = 0;
  for (std::size_t i = 0; i < at; ++i) {
    if (quote == '"' && line[i] == '\\') {
      ++i;
    } else if (quote == 0 ? quotes.contains(line[i]) : line[i] == quote) {
      quote = quote == 0 ? line[i] : '\0';
    }
  }
  return std::min(quote != 0 ? line.find(quote, at) : line.find_first_of(" \t\"'", at), line.size());
}

// A star for each byte, so that columns stay what they are.
void mask(std::string& line, std::size_t begin, std::size_t end) { line.replace(begin, end - begin, end - begin, '*'); }

// The password of scheme://user:password@host, and what follows the first query parameter that holds a credential:
// a password with '&' in it could end anywhere.
void mask_urls(std::string& line) {
  for (std::size_t at = line.find("://"); at != line.npos; at = line.find("://", at + 3)) {
    const std::size_t begin = at + 3;
    const std::size_t end = end_of_string(line, begin);
    const std::size_t host = std::string_view(line).substr(0, end).rfind('@');
    const std::size_t colon = line.find(':', begin);
    if (host != line.npos && colon < host) mask(line, colon + 1, host);
    for (std::size_t name = line.find('?', begin); name < end; name = line.find('&', name)) {
      const std::size_t equals = line.find_first_of("=&", ++name);
      if (equals >= end || line[equals] == '&') continue;
      if (names_credential(std::string_view(line).substr(name, equals - name))) mask(line, equals + 1, end);
    }
  }
}

// Of keys and of parameters in connection strings. names_credential() knows too many: `key` is a key of its own here.
bool is_secret(std::string_view name) {
  constexpr std::array<std::string_view, 8> ends = {"secret", "password", "passwd",  "passphrase",
                                                    "pwd",    "token",    "api_key", "apikey"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

// secret = "...", and password=... within a string. A `url` that is none is masked as a whole: its password may be
// anywhere. The name of a variable, and a statement's parameter, are no secrets.
void mask_values(std::string& line) {
  for (std::size_t equals = line.find('='); equals != line.npos; equals = line.find('=', equals + 1)) {
    const std::string_view before = std::string_view(line).substr(0, equals);
    const std::size_t name_end = before.find_last_not_of(" \t\"'") + 1;
    std::string_view name = before.substr(0, name_end);
    name.remove_prefix(name.find_last_of(" \t.,{\"'?&") + 1);
    const bool secret = is_secret(name);
    const std::size_t begin = line.find_first_not_of(" \t", equals + 1);
    if ((!secret && name != "url") || begin == line.npos) continue;
    if (quotes.contains(line[begin])) {
      const char quote = line[begin];
      std::size_t inside = begin + 1;
      if (line.substr(inside, 2) == std::string(2, quote)) inside += 2;
      std::size_t end = inside;
      for (; end < line.size() && line[end] != quote; ++end) {
        if (line[end] == '\\' && quote == '"' && end + 1 < line.size()) ++end;
      }
      std::string_view value = std::string_view(line).substr(inside, end - inside);
      if (value.starts_with("${")) {  // only its default can be one
        const auto otherwise = value.find(":-");
        if (otherwise == value.npos) continue;
        end = inside + std::min(value.find('}'), value.size());
        inside += otherwise + 2;
        value = std::string_view(line).substr(inside, end - inside);
      }
      if (!secret && (value.contains("://") || value.starts_with("sqlite:"))) continue;
      mask(line, inside, end);
    } else if (secret && begin == equals + 1 && name_end == equals && !std::string_view("$:?").contains(line[begin])) {
      mask(line, begin, std::min(line.find_first_of(" \t\"',;&}", begin), line.size()));
    }
  }
}

}  // namespace

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

  std::string masked(line(position.line));
  mask_urls(masked);
  mask_values(masked);
  std::string shown = printable(masked);
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
