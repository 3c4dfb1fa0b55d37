#include "api/body/form_reader.h"

#include <string>

#include "base/hex.h"

namespace sluice::api {

RowReader::Next FormReader::step() {
  if (read_) return Next::end;
  const std::string_view text(text_.begin(), static_cast<std::size_t>(text_.end() - text_.begin()));
  if (text.size() > limits_.row_bytes) {
    return broken(text.data(), "the form is longer than " + std::to_string(limits_.row_bytes) + " bytes");
  }
  if (!finished()) return Next::need_more;
  if (text.empty()) return broken(text.data(), "the body is empty");
  read_ = true;
  text_.use_to(text.data() + text.size());
  static_cast<void>(decoded_.reserve(text.size()));
  return pairs(text);
}

namespace {

// A correct client escapes the braces in a form.
bool looks_like_json(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return false;
  const char last = text[text.find_last_not_of(" \t\r\n")];
  return (text[begin] == '{' && last == '}') || (text[begin] == '[' && last == ']');
}

}  // namespace

RowReader::Next FormReader::pairs(std::string_view text) {
  if (looks_like_json(text)) {
    return broken(text.data(),
                  "the body is JSON, and its Content-Type is application/x-www-form-urlencoded: send "
                  "Content-Type: application/json");
  }
  fields_.clear();
  std::size_t count = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (pair.empty()) continue;
    if (++count > limits_.columns) {
      return broken(pair.data(), "the form has more than " + std::to_string(limits_.columns) + " fields");
    }
    const auto equals = pair.find('=');
    const auto name = decoded(pair.substr(0, equals));
    const auto value = decoded(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1));
    if (!name || !value) {
      return broken(pair.data(), "there is an invalid escape", name && is_text(*name) ? shown(*name) : std::string{});
    }
    if (!is_text(*name)) return bad_row(pair.data(), "a name is not valid UTF-8, or holds the character NUL");
    const std::uint32_t index = fields_.column(*name);
    if (index == FieldTree::none) {
      if (fields_.allows_unknown()) continue;
      return bad_row(pair.data(), "there is no field \"" + shown(*name) + "\"", shown(*name));
    }
    if (!is_text(*value)) {
      return bad_row(pair.data(), "the value is not valid UTF-8, or holds the character NUL", shown(*name));
    }
    FieldTree::Node& node = fields_.at(index);
    if (node.seen != 0) return bad_row(pair.data(), "the field is there twice", shown(*name));
    node.seen = 1;
    fields_.set(node, {Value::Kind::string, *value});
  }
  return good_row(text.data());
}

std::optional<std::string_view> FormReader::decoded(std::string_view text) {
  if (text.find_first_of("%+") == std::string_view::npos) return text;
  char* const start = decoded_.reserve(text.size());
  char* to = start;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char byte = text[at];
    if (byte == '+') {
      byte = ' ';
    } else if (byte == '%') {
      const int high = text.size() - at >= 3 ? hex_digit(text[at + 1]) : -1;
      const int low = text.size() - at >= 3 ? hex_digit(text[at + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      byte = static_cast<char>(high * 16 + low);
      at += 2;
    }
    *to++ = byte;
  }
  const auto written = static_cast<std::size_t>(to - start);
  decoded_.commit(written);
  return std::string_view(start, written);
}

}  // namespace sluice::api
