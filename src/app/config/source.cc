#include "app/config/source.h"

#include <algorithm>

#include <fmt/format.h>

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

// scheme://user:password@host: the password becomes stars, as many as it has bytes.
std::string mask_passwords(std::string line) {
  for (std::size_t at = line.find("://"); at != line.npos; at = line.find("://", at + 3)) {
    std::size_t begin = at + 3;
    std::size_t end = std::min(line.find_first_of(" \"'", begin), line.size());
    std::size_t host = line.substr(begin, end - begin).find_last_of('@');
    std::size_t colon = line.find(':', begin);
    if (host == line.npos || colon >= begin + host) continue;
    std::size_t password = begin + host - colon - 1;
    line.replace(colon + 1, password, password, '*');
  }
  return line;
}

// secret = "..." of a policy: what is between the quotes, unless it comes from the environment.
std::string mask_secrets(std::string line) {
  constexpr std::string_view key = "secret";
  for (std::size_t at = 0; (at = line.find(key, at)) != line.npos;) {
    at += key.size();
    std::size_t equals = line.find_first_not_of("\"' \t", at);
    if (equals == line.npos || line[equals] != '=') continue;
    const std::size_t quote = line.find_first_not_of(" \t", equals + 1);
    if (quote == line.npos || (line[quote] != '"' && line[quote] != '\'')) continue;
    const std::size_t begin = line.find_first_not_of(line[quote], quote);
    if (begin == line.npos || line.compare(begin, 2, "${") == 0) continue;
    for (at = begin; at < line.size() && line[at] != line[quote]; ++at) {
      if (line[at] == '\\' && line[quote] == '"' && at + 1 < line.size()) line[at++] = '*';
      line[at] = '*';  // a byte, as for passwords
    }
  }
  return line;
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

  std::string shown = printable(mask_secrets(mask_passwords(std::string(line(position.line)))));
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
