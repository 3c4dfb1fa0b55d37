#pragma once

#include <string>
#include <string_view>

#include "api/resident/row_text.h"

// Iterates over the elements of arrays in the databases' formats, for indexes.
namespace sluice::api::resident {

// Calls `each` with every element that is not NULL of an array in PostgreSQL's text form (`{a,"b c",NULL}`), in all
// dimensions. Quoted elements are unescaped in `scratch`. Returns false if `each` does or the text is not an array.
template <class Each>
bool each_array_element(std::string_view text, char delimiter, std::string& scratch, Each each) {
  if (const std::size_t bounds = text.find("]={"); text.starts_with('[') && bounds != text.npos) {
    text.remove_prefix(bounds + 2);
  }
  if (!text.starts_with('{') || !text.ends_with('}')) return false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '{' || c == '}' || c == delimiter) {
      ++at;
    } else if (c == '"') {
      scratch.clear();
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        scratch.push_back(text[at]);
      }
      ++at;
      if (!each(std::string_view(scratch))) return false;
    } else {
      const std::size_t begin = at;
      while (at < text.size() && text[at] != delimiter && text[at] != '}') ++at;
      const std::string_view element = text.substr(begin, at - begin);
      if (element != "NULL" && !each(element)) return false;
    }
  }
  return true;
}

// The same for a JSON value: calls `each` with every element of an array, or with the value itself if it is not an
// array. Strings are unescaped. null, nested arrays and objects are skipped.
template <class Each>
bool each_json_element(std::string_view text, std::string& scratch, Each each) {
  const auto give = [&](std::string_view value) {
    value = trimmed(value);
    if (value.empty() || value == "null" || value.front() == '{' || value.front() == '[') return true;
    if (value.front() != '"') return each(value);
    scratch.clear();
    append_unescaped(value.substr(1, value.size() < 2 ? 0 : value.size() - 2), scratch);
    return each(std::string_view(scratch));
  };
  text = trimmed(text);
  if (!text.starts_with('[')) return give(text);
  for (std::size_t at = 1; at < text.size() && text[at] != ']';) {
    const std::size_t size = value_size(text.substr(at));
    if (!give(text.substr(at, size))) return false;
    at += size;
    if (at < text.size() && text[at] == ',')
      ++at;
    else if (size == 0)
      break;
  }
  return true;
}

}  // namespace sluice::api::resident
