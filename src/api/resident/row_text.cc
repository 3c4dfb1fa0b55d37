#include "api/resident/row_text.h"

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"

namespace sluice::api::resident {
namespace {

// The size of the string at the beginning of the text, with its quotes.
std::size_t string_size(std::string_view text) {
  for (std::size_t at = 1; at < text.size();) {
    const char* const quote = static_cast<const char*>(std::memchr(text.data() + at, '"', text.size() - at));
    if (quote == nullptr) break;
    at = static_cast<std::size_t>(quote - text.data());
    std::size_t slashes = 0;
    while (text[at - 1 - slashes] == '\\') ++slashes;
    ++at;
    if (slashes % 2 == 0) return at;
  }
  return text.size();
}

// The value of four hexadecimal digits, which are valid because the encoder wrote them.
std::uint32_t unit_of(std::string_view digits) {
  std::uint32_t unit = 0;
  for (const char digit : digits.substr(0, 4)) unit = unit * 16 + (static_cast<std::uint32_t>(hex_digit(digit)) & 0xf);
  return unit;
}

}  // namespace

RowText::RowText(std::span<const sql::Column> columns) {
  for (const sql::Column& column : columns) {
    Buffer name;
    name.push_back('"');
    append_json_escaped(name, column.name);
    name.append("\":");
    names_.emplace_back(name.view());
  }
}

void RowText::cut(std::string_view row, std::span<std::string_view> values) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    at = std::min(row.size(), at + 1 + names_[i].size());  // skips `{` or `,` and the name
    const std::size_t size = value_size(row.substr(at));
    values[i] = row.substr(at, size);
    at += size;
  }
}

std::size_t value_size(std::string_view text) {
  std::size_t at = 0;
  for (std::size_t depth = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at += string_size(text.substr(at));
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_json_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_blank(text.back())) text.remove_suffix(1);
  return text;
}

void append_unescaped(std::string_view inside, std::string& out) {
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out.push_back(inside[i]);
      continue;
    }
    switch (inside[++i]) {
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        if (inside.size() - i < 5) return;
        std::uint32_t code = unit_of(inside.substr(i + 1));
        i += 4;
        if (is_high_surrogate(code) && inside.substr(i + 1).starts_with("\\u") && inside.size() - i > 6) {
          if (const std::uint32_t low = unit_of(inside.substr(i + 3)); is_low_surrogate(low)) {
            code = join_surrogates(code, low);
            i += 6;
          }
        }
        if (is_high_surrogate(code) || is_low_surrogate(code)) code = 0xfffd;  // a lone surrogate
        append_utf8(out, code);
        break;
      }
      default:
        out.push_back(inside[i]);
        break;
    }
  }
}

}  // namespace sluice::api::resident
