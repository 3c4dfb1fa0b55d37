#include "app/suite/json.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/utf8.h"

namespace sluice::app::suite {
namespace {

// The length of the multi-byte character at the beginning of `text`; 0 if it is invalid (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

// Recursive, with a nesting of at most deepest_json.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::expected<Json, JsonError> document() {
    Json value;
    skip_blanks();
    if (!read(value, 0)) return std::unexpected(std::move(error_));
    skip_blanks();
    if (at_ != text_.size()) return std::unexpected(JsonError{at_, "there is something behind the value"});
    return value;
  }

 private:
  bool fail(std::string message) {
    error_ = {at_, at_ == text_.size() ? "it ends too early" : std::move(message)};
    return false;
  }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view expected, Json value, Json& out) {
    if (!text_.substr(at_).starts_with(expected)) return fail("a value is expected");
    at_ += expected.size();
    out = std::move(value);
    return true;
  }

  bool read(Json& out, std::size_t depth) {
    if (at_ == text_.size()) return fail("a value is expected");
    switch (text_[at_]) {
      case '{':
      case '[':
        if (depth == deepest_json) return fail("it is nested too deeply");
        return text_[at_] == '{' ? object(out, depth + 1) : array(out, depth + 1);
      case '"':
        out.kind = Json::Kind::string;
        return string(out.text);
      case 't':
        return word("true", Json::boolean(true), out);
      case 'f':
        return word("false", Json::boolean(false), out);
      case 'n':
        return word("null", Json(), out);
      default:
        return number(out);
    }
  }

  bool array(Json& out, std::size_t depth) {
    out.kind = Json::Kind::array;
    ++at_;
    skip_blanks();
    if (take(']')) return true;
    for (;;) {
      skip_blanks();
      if (!read(out.items.emplace_back(), depth)) return false;
      skip_blanks();
      if (take(']')) return true;
      if (!take(',')) return fail("a comma or ] is expected");
    }
  }

  bool object(Json& out, std::size_t depth) {
    out.kind = Json::Kind::object;
    ++at_;
    skip_blanks();
    if (take('}')) return true;
    for (;;) {
      skip_blanks();
      if (at_ == text_.size() || text_[at_] != '"') return fail("a name in quotes is expected");
      Member& member = out.members.emplace_back();
      if (!string(member.name)) return false;
      skip_blanks();
      if (!take(':')) return fail("a colon is expected");
      skip_blanks();
      if (!read(member.value, depth)) return false;
      skip_blanks();
      if (take('}')) return true;
      if (!take(',')) return fail("a comma or } is expected");
    }
  }

  std::optional<std::uint32_t> four_hex_digits() {
    std::uint32_t code = 0;
    if (text_.size() - at_ < 4) return {};
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    if (error != std::errc() || end != begin + 4) return {};
    at_ += 4;
    return code;
  }

  bool escape(std::string& out) {
    if (at_ == text_.size()) return fail("");
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    const char letter = text_[at_];
    if (const std::size_t index = letters.find(letter); index != letters.npos) {
      out += meant[index];
      ++at_;
      return true;
    }
    if (letter != 'u') return fail("there is no such escape");
    ++at_;
    const std::size_t begin = at_;
    auto code = four_hex_digits();
    if (!code) return fail("\\u needs four hexadecimal digits");
    if (is_high_surrogate(*code) && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      const auto low = four_hex_digits();
      if (!low || !is_low_surrogate(*low)) {
        at_ = begin;
        return fail("half of a surrogate pair");
      }
      append_utf8(out, join_surrogates(*code, *low));
      return true;
    }
    if (is_high_surrogate(*code) || is_low_surrogate(*code)) {
      at_ = begin;
      return fail("half of a surrogate pair");
    }
    append_utf8(out, *code);
    return true;
  }

  bool string(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        ++at_;
        if (!escape(out)) return false;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        return fail("a control character in a string");
      } else if (static_cast<unsigned char>(c) < 0x80) {
        out += c;
        ++at_;
      } else {
        const std::size_t length = utf8_length(text_.substr(at_));
        if (length == 0) return fail("this is not UTF-8");
        out += text_.substr(at_, length);
        at_ += length;
      }
    }
    return fail("");
  }

  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ != begin || fail("a digit is expected");
  }

  bool number(Json& out) {
    const std::size_t begin = at_;
    const bool negative = take('-');
    if (at_ == text_.size() || !is_digit(text_[at_]))
      return fail(negative ? "a digit is expected" : "a value is expected");
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    out = Json::number(std::string(text_.substr(begin, at_ - begin)));
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  JsonError error_;
};

// A number as digits * 10^exponent. The digits have no zeros at either end; zero has no digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

std::optional<Decimal> decimal(std::string_view text) {
  Decimal result;
  if (text.starts_with('-')) {
    result.negative = true;
    text.remove_prefix(1);
  }
  if (const std::size_t e = text.find_first_of("eE"); e != text.npos) {
    std::string_view exponent = text.substr(e + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), result.exponent);
    // Half of the range leaves room to add the number of digits.
    if (error != std::errc() || result.exponent > INT64_MAX / 2 || result.exponent < INT64_MIN / 2) return {};
    text = text.substr(0, e);
  }
  for (bool behind_point = false; const char c : text) {
    if (c == '.') {
      behind_point = true;
      continue;
    }
    result.digits += c;
    if (behind_point) --result.exponent;
  }
  result.digits.erase(0, std::min(result.digits.find_first_not_of('0'), result.digits.size()));
  while (result.digits.ends_with('0')) {
    result.digits.pop_back();
    ++result.exponent;
  }
  if (result.digits.empty()) return Decimal{};
  return result;
}

void append_string(std::string& out, std::string_view text) {
  Buffer escaped;
  append_json_escaped(escaped, text);
  out += '"';
  out += escaped.view();
  out += '"';
}

void append(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::null:
      out += "null";
      break;
    case Json::Kind::boolean:
    case Json::Kind::number:
    case Json::Kind::marker:
      out += value.text;
      break;
    case Json::Kind::string:
      append_string(out, value.text);
      break;
    case Json::Kind::array: {
      out += '[';
      for (bool first = true; const Json& item : value.items) {
        if (!std::exchange(first, false)) out += ", ";
        append(out, item);
      }
      out += ']';
      break;
    }
    case Json::Kind::object: {
      out += '{';
      for (bool first = true; const auto& [name, member] : value.members) {
        if (!std::exchange(first, false)) out += ", ";
        append_string(out, name);
        out += ": ";
        append(out, member);
      }
      out += '}';
      break;
    }
  }
}

void append_lines(std::string& out, const Json& value, std::size_t indent) {
  constexpr std::size_t width = 100;
  std::string line;
  append(line, value);
  const bool is_list = value.kind == Json::Kind::array;
  if ((!is_list && value.kind != Json::Kind::object) || (indent + line.size() <= width && indent != 0) ||
      (value.items.empty() && value.members.empty())) {
    out += line;
    return;
  }
  const std::string margin(indent + 2, ' ');
  out += is_list ? "[" : "{";
  bool first = true;
  for (const Json& item : value.items) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += margin;
    append_lines(out, item, indent + 2);
  }
  for (const auto& [name, member] : value.members) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += margin;
    append_string(out, name);
    out += ": ";
    append_lines(out, member, indent + 2);
  }
  out += "\n" + std::string(indent, ' ');
  out += is_list ? "]" : "}";
}

}  // namespace

Json Json::boolean(bool value) {
  Json result;
  result.kind = Kind::boolean;
  result.text = value ? "true" : "false";
  return result;
}
Json Json::number(std::string text) {
  Json result;
  result.kind = Kind::number;
  result.text = std::move(text);
  return result;
}
Json Json::string(std::string text) {
  Json result;
  result.kind = Kind::string;
  result.text = std::move(text);
  return result;
}
Json Json::array() {
  Json result;
  result.kind = Kind::array;
  return result;
}
Json Json::object() {
  Json result;
  result.kind = Kind::object;
  return result;
}

const Json* Json::find(std::string_view name) const {
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (member->name == name) return &member->value;
  }
  return nullptr;
}

std::expected<Json, JsonError> parse_json(std::string_view text) { return Parser(text).document(); }

std::string print_json(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

std::string print_json_lines(const Json& value) {
  std::string out;
  append_lines(out, value, 0);
  return out;
}

bool same_number(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const auto first = decimal(one);
  const auto second = decimal(other);
  return first && second && *first == *second;
}

std::string_view name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "an array";
    case Json::Kind::object:
      return "an object";
    case Json::Kind::marker:
      return "a marker";
  }
  return {};
}

}  // namespace sluice::app::suite
