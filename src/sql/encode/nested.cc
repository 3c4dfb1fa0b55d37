#include "sql/encode/nested.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"

namespace sluice::sql::encode {

namespace {

std::string key_of(std::string_view name, char before) {
  Buffer buffer;
  {
    Writer writer(buffer);
    writer.put(before);
    writer.string(name);
    writer.put(':');
  }
  return std::string(buffer.view());
}

// Reads an element's text from its opening quote. `doubled`: a quote inside may be written twice (composites). Advances
// `at` past the closing quote; returns nothing if it is missing.
std::optional<std::string_view> quoted(std::string_view text, std::size_t& at, Buffer& scratch, bool doubled) {
  ++at;
  const std::size_t start = at;
  // Most elements contain no escapes and are returned as a view.
  at = text.find_first_of("\"\\", at);
  if (at == std::string_view::npos) return std::nullopt;
  if (text[at] == '"' && !(doubled && at + 1 < text.size() && text[at + 1] == '"')) {
    return text.substr(start, at++ - start);
  }
  scratch.clear();
  std::size_t plain = start;
  for (;;) {
    if (at != plain) scratch.append(text.substr(plain, at - plain));
    const bool escaped = text[at] == '\\' || (doubled && at + 1 < text.size() && text[at + 1] == '"');
    ++at;
    if (!escaped) return scratch.view();
    if (at == text.size()) return std::nullopt;
    plain = at;
    at = text.find_first_of("\"\\", at + 1);
    if (at == std::string_view::npos) return std::nullopt;
  }
}

// The index of the first element, after the bounds if there are any ([0:2]={...}).
std::size_t after_bounds(std::string_view text) {
  if (text.empty() || text.front() != '[') return 0;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return 0;
  const bool bounds = std::ranges::all_of(text.substr(0, equals), [](char byte) {
    return (byte >= '0' && byte <= '9') || byte == '[' || byte == ']' || byte == ':' || byte == '-' || byte == '+';
  });
  return bounds ? equals + 1 : 0;
}

}  // namespace

ValuePlan::ValuePlan(const Type& type) : form(type.form), delimiter(type.delimiter) {
  if (form == Form::array) {
    static const Type plain;
    parts.emplace_back(type.element ? *type.element : plain);
  } else if (form == Form::composite) {
    static const Type plain;
    for (const Attribute& attribute : type.attributes) {
      keys.push_back(key_of(attribute.name, keys.empty() ? '{' : ','));
      parts.emplace_back(attribute.type ? *attribute.type : plain);
    }
  } else {
    return;
  }
  for (const ValuePlan& part : parts) depth = std::max(depth, part.depth);
  ++depth;
}

void NestedWriter::value(const ValuePlan& plan, std::string_view text) {
  switch (plan.form) {
    case Form::number:
      return writer_.number(text);
    case Form::boolean:
      return writer_.boolean(text);
    case Form::json:
      return writer_.json(text, one_line_);
    case Form::timestamp:
      return writer_.timestamp(text, false);
    case Form::timestamp_tz:
      return writer_.timestamp(text, true);
    case Form::bytes:
      return writer_.bytes(text);
    case Form::array:
    case Form::composite: {
      const std::size_t mark = writer_.mark();
      const bool whole = plan.form == Form::composite ? composite(plan, text)
                         : plan.delimiter == ' '      ? vector(plan, text)
                                                      : array(plan, text);
      if (whole) return;
      writer_.back_to(mark);
      return writer_.string(text);
    }
    case Form::text:
    case Form::dynamic:
      return writer_.string(text);
  }
}

// The output's brackets follow the braces, so any number of dimensions needs only a counter and no recursion.
bool NestedWriter::array(const ValuePlan& plan, std::string_view text) {
  SLUICE_ASSERT(scratch_.size() >= plan.depth);
  const ValuePlan& element = plan.parts.front();
  Buffer& scratch = scratch_[plan.depth - 1];
  const char ends[] = {plan.delimiter, '}', '{', '"', '\\'};
  std::size_t at = after_bounds(text);
  std::size_t open = 0;
  const auto next_is = [&](char byte) { return at < text.size() && text[at] == byte; };
  for (;;) {
    // An element or a sub-array begins here.
    if (next_is('{')) {
      ++at;
      ++open;
      writer_.put('[');
      if (!next_is('}')) continue;
    } else if (open == 0) {
      return false;
    } else if (next_is('"')) {
      const std::optional<std::string_view> content = quoted(text, at, scratch, false);
      if (!content) return false;
      value(element, *content);
    } else {
      const std::size_t end = text.find_first_of(std::string_view(ends, sizeof ends), at);
      if (end == std::string_view::npos || end == at || (text[end] != plan.delimiter && text[end] != '}')) return false;
      const std::string_view content = text.substr(at, end - at);
      at = end;
      if (content == "NULL") {
        writer_.put("null");
      } else {
        value(element, content);
      }
    }
    // An element or a sub-array has ended here, or the array is empty.
    while (next_is('}')) {
      ++at;
      --open;
      writer_.put(']');
      if (open == 0) return at == text.size();
    }
    if (!next_is(plan.delimiter)) return false;
    ++at;
    writer_.put(',');
  }
}

// to_json() treats int2vector and oidvector as arrays, but their text has no braces and separates elements by spaces.
bool NestedWriter::vector(const ValuePlan& plan, std::string_view text) {
  const ValuePlan& element = plan.parts.front();
  writer_.put('[');
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end == 0 || end + 1 == text.size()) return false;
    value(element, text.substr(0, end));
    if (end == text.size()) break;
    writer_.put(',');
    text.remove_prefix(end + 1);
  }
  writer_.put(']');
  return true;
}

bool NestedWriter::composite(const ValuePlan& plan, std::string_view text) {
  SLUICE_ASSERT(scratch_.size() >= plan.depth);
  Buffer& scratch = scratch_[plan.depth - 1];
  if (text.size() < 2 || text.front() != '(') return false;
  std::size_t at = 1;
  if (plan.parts.empty()) {
    writer_.put("{}");
    return text == "()";
  }
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    writer_.put(plan.keys[i]);
    if (at == text.size()) return false;
    if (text[at] == ',' || text[at] == ')') {
      writer_.put("null");
    } else if (text[at] == '"') {
      const std::optional<std::string_view> content = quoted(text, at, scratch, true);
      if (!content) return false;
      value(plan.parts[i], *content);
    } else {
      const std::size_t end = text.find_first_of(",()\"\\", at);
      if (end == std::string_view::npos) return false;
      value(plan.parts[i], text.substr(at, end - at));
      at = end;
    }
    if (at == text.size() || text[at] != (i + 1 == plan.parts.size() ? ')' : ',')) return false;
    ++at;
  }
  writer_.put('}');
  return at == text.size();
}

}  // namespace sluice::sql::encode
