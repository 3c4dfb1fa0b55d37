#include "api/body/json_row.h"

#include <bit>
#include <cstring>

#include <simdjson.h>

#include "base/ascii.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"
#include "sql/encode/scan.h"

namespace sluice::api {
namespace {

using sql::encode::Chunk;

// The value of four valid hexadecimal digits.
std::uint32_t hex4(const char* at) {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i) code = code * 16 + static_cast<std::uint32_t>(hex_digit(at[i]));
  return code;
}

// The character for a letter after a backslash; 0 if the escape is invalid.
char meaning(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/':
      return letter;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

}  // namespace

void JsonRow::begin(const char* from, const char* end) {
  fields_.clear();
  begin_ = at_ = from;
  end_ = end;
  ran_out_ = false;
  ++row_;
  depth_ = 0;
  decoded_.clear();
}

bool JsonRow::refuse(const char* at, std::string_view reason) {
  fail(at, reason);
  is_syntax_ = false;
  return false;
}

bool JsonRow::fail(const char* at, std::string_view reason) {
  at_ = at;
  is_syntax_ = true;
  ran_out_ = at >= end_;
  pointer_.clear();
  reason_ = ran_out_ ? std::string_view("the text ends in the middle of a row") : reason;
  return false;
}

std::string JsonRow::pointer_to(std::string_view name) {
  std::string pointer;
  while (!name.empty()) {
    const auto dot = name.rfind('.');
    prepend(name.substr(dot == name.npos ? 0 : dot + 1), pointer);
    name = name.substr(0, dot == name.npos ? 0 : dot);
  }
  return pointer;
}

void JsonRow::prepend(std::string_view name, std::string& pointer) {
  std::string step = "/";
  append_pointer_escaped(step, shown(name));
  pointer.insert(0, step);
}

bool JsonRow::object() {
  if (*at_ != '{') return refuse(at_, "an object is expected");
  FieldTree::Node& root = fields_.root();
  const char* const from = at_;
  if (!members(root)) return false;
  if (root.named()) fields_.set(root, {Value::Kind::json, {from, at_}});
  return true;
}

bool JsonRow::members(FieldTree::Node& node) {
  if (++depth_ > limits_.depth) {
    return refuse(at_, "it is nested deeper than " + std::to_string(limits_.depth) + " levels");
  }
  ++at_;
  skip_blanks();
  if (*at_ == '}') {
    ++at_;
    --depth_;
    return true;
  }
  std::uint32_t* expected = &node.first;
  for (std::size_t count = 1;; ++count) {
    std::uint32_t child = FieldTree::none;
    if (count > limits_.columns) {
      return refuse(at_, "an object has more than " + std::to_string(limits_.columns) + " fields");
    }
    if (!key(node, *expected, child)) return false;
    skip_blanks();
    if (*at_ != ':') return fail(at_, "a colon is expected");
    ++at_;
    skip_blanks();
    if (child == FieldTree::none) {
      if (!skip_value()) return false;
    } else {
      if (!value(child)) {
        prepend(fields_.at(child).name, pointer_);
        return false;
      }
      expected = &fields_.at(child).next;
    }
    skip_blanks();
    if (*at_ == ',') {
      ++at_;
      skip_blanks();
      continue;
    }
    if (*at_ != '}') return fail(at_, "a comma or '}' is expected");
    ++at_;
    --depth_;
    return true;
  }
}

// `expected` remembers the node that probably comes next.
bool JsonRow::key(FieldTree::Node& node, std::uint32_t& expected, std::uint32_t& child) {
  const char* const from = at_;
  if (expected != FieldTree::none) {
    const FieldTree::Node& likely = fields_.at(expected);
    const std::size_t size = likely.name.size();
    if (likely.plain && *from == '"' && static_cast<std::size_t>(end_ - from) > size + 1 && from[size + 1] == '"' &&
        std::memcmp(from + 1, likely.name.data(), size) == 0) {
      child = expected;
      at_ = from + size + 2;
      return true;
    }
  }
  std::string_view text;
  if (!name(text)) return false;
  child = fields_.child_of(node, text);
  if (child != FieldTree::none) {
    expected = child;
  } else if (!node.open) {
    refuse(from, "there is no field \"" + shown(text) + "\"");
    prepend(text, pointer_);
    return false;
  }
  return true;
}

bool JsonRow::name(std::string_view& text) {
  const char* const from = at_;
  if (*from != '"') return fail(from, "a name in quotes is expected");
  Text raw;
  if (!string(raw)) return false;
  name_.clear();
  text = raw.escaped ? decoded(raw, name_) : std::string_view(raw.begin, raw.end);
  if (raw.escaped && text.contains('\0')) return refuse(from, "a name holds the character NUL");
  return true;
}

bool JsonRow::value(std::uint32_t field) {
  FieldTree::Node& node = fields_.at(field);
  const char* const from = at_;
  if (node.seen == row_) return refuse(from, "the field is there twice");
  node.seen = row_;
  Value read;
  switch (*from) {
    case '"': {
      Text raw;
      if (!string(raw)) return false;
      if (raw.escaped && decoded_.empty())
        static_cast<void>(decoded_.reserve(static_cast<std::size_t>(end_ - begin_) + Chunk::size));
      read = {.kind = Value::Kind::string,
              .text = raw.escaped ? decoded(raw, decoded_) : std::string_view(raw.begin, raw.end),
              .json = {from, at_}};
      break;
    }
    case '{':
      if (node.children.empty() ? !skip_value() : !members(node)) return false;
      if (node.named()) fields_.set(node, {Value::Kind::json, {from, at_}});
      return true;
    case '[':
      if (!node.children.empty()) break;
      if (!skip_value()) return false;
      read = {Value::Kind::json, {from, at_}};
      break;
    case 'n':
      if (!word("null")) return false;
      if (node.named()) fields_.set(node, {.kind = Value::Kind::null, .text = {}, .json = {from, at_}});
      return true;
    case 't':
      if (!word("true")) return false;
      read = {Value::Kind::boolean, {from, at_}};
      break;
    case 'f':
      if (!word("false")) return false;
      read = {Value::Kind::boolean, {from, at_}};
      break;
    default:
      if (!number()) return false;
      read = {Value::Kind::number, {from, at_}};
      break;
  }
  if (!node.children.empty()) return refuse(from, "an object is expected");
  fields_.set(node, read);
  return true;
}

// Skips a value that is ignored or kept as text.
bool JsonRow::skip_value() {
  open_.clear();
  for (;;) {
    // At the beginning of a value.
    switch (*at_) {
      case '{':
      case '[': {
        if (depth_ + open_.size() >= limits_.depth) {
          return refuse(at_, "it is nested deeper than " + std::to_string(limits_.depth) + " levels");
        }
        open_ += *at_ == '{' ? '}' : ']';
        ++at_;
        skip_blanks();
        if (*at_ == open_.back()) {
          open_.pop_back();
          ++at_;
          break;
        }
        if (open_.back() == ']') continue;
        if (!skip_name()) return false;
        continue;
      }
      case '"': {
        Text raw;
        if (!string(raw)) return false;
        break;
      }
      case 't':
        if (!word("true")) return false;
        break;
      case 'f':
        if (!word("false")) return false;
        break;
      case 'n':
        if (!word("null")) return false;
        break;
      default:
        if (!number()) return false;
        break;
    }
    // The value has ended, and perhaps also the containers around it.
    for (;;) {
      if (open_.empty()) return true;
      skip_blanks();
      if (*at_ == ',') {
        ++at_;
        skip_blanks();
        if (open_.back() == '}' && !skip_name()) return false;
        break;
      }
      if (*at_ != open_.back()) {
        return fail(at_, open_.back() == '}' ? "a comma or '}' is expected" : "a comma or ']' is expected");
      }
      open_.pop_back();
      ++at_;
    }
  }
}

bool JsonRow::skip_name() {
  if (*at_ != '"') return fail(at_, "a name in quotes is expected");
  Text raw;
  if (!string(raw)) return false;
  skip_blanks();
  if (*at_ != ':') return fail(at_, "a colon is expected");
  ++at_;
  skip_blanks();
  return true;
}

bool JsonRow::string(Text& text) {
  text.begin = at_ + 1;
  text.escaped = false;
  unsigned beyond_ascii = 0;
  for (const char* at = text.begin;;) {
    const Chunk chunk = Chunk::load(at);
    const unsigned specials = chunk.json_specials();
    if (specials == 0) {
      beyond_ascii |= chunk.beyond_ascii();
      at += Chunk::size;
      continue;
    }
    beyond_ascii |= chunk.beyond_ascii() & (specials ^ (specials - 1));
    at += std::countr_zero(specials);
    if (*at == '"') {
      if (at >= end_) return fail(at, {});
      text.end = at;
      break;
    }
    if (*at != '\\') return fail(at, "a control character in a string must be escaped");
    text.escaped = true;
    if (!escape(at)) return false;
  }
  if (beyond_ascii != 0 && !simdjson::validate_utf8(text.begin, static_cast<std::size_t>(text.end - text.begin)))
      [[unlikely]] {
    return refuse(text.begin, "a string is not valid UTF-8");
  }
  at_ = text.end + 1;
  return true;
}

bool JsonRow::escape(const char*& at) {
  if (at[1] != 'u') {
    if (meaning(at[1]) == 0) return fail(at[1] == '\0' ? at + 1 : at, "an invalid escape");
    at += 2;
    return true;
  }
  const auto digits = [&](const char* from) {
    for (int i = 0; i < 4; ++i) {
      if (hex_digit(from[i]) < 0) return fail(from + i, "an invalid escape");
    }
    return true;
  };
  if (!digits(at + 2)) return false;
  const std::uint32_t code = hex4(at + 2);
  if (is_low_surrogate(code)) return refuse(at, "a lone surrogate");
  if (!is_high_surrogate(code)) {
    at += 6;
    return true;
  }
  for (int i = 6; i < 8; ++i) {
    if (at[i] != "\\u"[i - 6]) return refuse(at + i >= end_ ? at + i : at, "a lone surrogate");
  }
  if (!digits(at + 8)) return false;
  if (!is_low_surrogate(hex4(at + 8))) return refuse(at, "a lone surrogate");
  at += 12;
  return true;
}

std::string_view JsonRow::decoded(const Text& text, Buffer& into) const {
  const auto size = static_cast<std::size_t>(text.end - text.begin);
  // An escape is never shorter than its character. Chunks may reach past the end. Bytes that are stored there are not
  // counted.
  char* const start = into.reserve(size + Chunk::size);
  char* to = start;
  for (const char* at = text.begin; at < text.end;) {
    const Chunk chunk = Chunk::load(at);
    chunk.store(to);
    const unsigned specials = chunk.json_specials();  // a backslash, or the quote at the end of the string
    const std::size_t plain = specials == 0 ? Chunk::size : static_cast<std::size_t>(std::countr_zero(specials));
    to += plain;
    at += plain;
    if (specials == 0 || at == text.end) continue;
    if (at[1] != 'u') {
      *to++ = meaning(at[1]);
      at += 2;
      continue;
    }
    std::uint32_t code = hex4(at + 2);
    at += 6;
    if (is_high_surrogate(code)) {
      code = join_surrogates(code, hex4(at + 2));
      at += 6;
    }
    to = put_utf8(to, code);
  }
  const auto written = static_cast<std::size_t>(to - start);
  into.commit(written);
  return {start, written};
}

bool JsonRow::number() {
  const char* at = at_;
  if (*at == '-') ++at;
  if (!is_digit(*at)) return fail(at == at_ || *at == '\0' ? at : at_, "a value is expected");
  if (*at == '0') {
    ++at;
  } else {
    while (is_digit(*at)) ++at;
  }
  if (*at == '.') {
    if (!is_digit(*++at)) return fail(at, "a digit is expected behind the point");
    while (is_digit(*at)) ++at;
  }
  if (*at == 'e' || *at == 'E') {
    ++at;
    if (*at == '+' || *at == '-') ++at;
    if (!is_digit(*at)) return fail(at, "a digit is expected in the exponent");
    while (is_digit(*at)) ++at;
  }
  at_ = at;
  return true;
}

bool JsonRow::word(std::string_view expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (at_[i] != expected[i]) return fail(at_ + i >= end_ ? at_ + i : at_, "a value is expected");
  }
  at_ += expected.size();
  return true;
}

}  // namespace sluice::api
