#include "app/suite/expectation.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "app/config/text.h"
#include "app/suite/variables.h"
#include "sql/encode/text.h"
#include "sql/parameters.h"

namespace sluice::app::suite {
namespace {

using config::Value;

constexpr std::array<std::string_view, 10> markers = {"any",    "absent", "null",   "boolean", "number",
                                                      "string", "array",  "object", "matches", "contains"};

re2::RE2::Options quiet() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  return options;
}

// Returns what is wrong with a marker and a hint, or nothing.
std::optional<std::pair<std::string, std::string>> check_marker(std::string_view text, Side side) {
  const std::string hint = "\"##...\" is a string that begins with #";
  const std::string_view name = text.substr(1, text.find(' ') - 1);
  if (std::ranges::find(markers, name) == markers.end()) {
    const std::string meant = config::did_you_mean(name, markers);
    return std::pair(fmt::format("there is no marker #{}", name), meant.empty() ? hint : meant);
  }
  const bool takes_text = name == "matches" || name == "contains";
  const bool has_text = text.size() > name.size() + 2;
  if (side == Side::request && name != "null") {
    return std::pair(fmt::format("#{} is for what is expected", name), hint);
  }
  if (takes_text != has_text || (!takes_text && text.size() != name.size() + 1)) {
    return std::pair(
        takes_text ? fmt::format("#{} needs a text behind it", name) : fmt::format("#{} has nothing behind it", name),
        takes_text ? "" : hint);
  }
  if (name == "matches" && split_variables(text) && split_variables(text)->size() == 1) {
    const std::string pattern(text.substr(name.size() + 2));
    if (const re2::RE2 compiled(pattern, quiet()); !compiled.ok()) {
      return std::pair("the pattern is wrong: " + compiled.error(), std::string());
    }
  }
  return {};
}

// Turns strings that begin with # into markers. Calls `complain` for invalid ones.
using Complain = std::function<void(std::string, std::string)>;
void take_marker(Json& value, Side side, const Complain& complain) {
  if (!value.text.starts_with('#')) return;
  if (value.text.starts_with("##")) {
    value.text.erase(0, 1);
  } else if (auto wrong = check_marker(value.text, side)) {
    complain(std::move(wrong->first), std::move(wrong->second));
  } else if (side == Side::request) {
    value = Json();
  } else {
    value.kind = Json::Kind::marker;
  }
}
void take_markers(Json& value, Side side, const Complain& complain) {
  if (value.kind == Json::Kind::string) take_marker(value, side, complain);
  for (Json& item : value.items) take_markers(item, side, complain);
  for (auto& [name, member] : value.members) take_markers(member, side, complain);
}

Json convert(const Value& value, Side side, std::vector<config::Diagnostic>& errors) {
  Json result;
  switch (value.kind) {
    case Value::Kind::string:
      result = Json::string(value.text);
      take_marker(result, side, [&](std::string message, std::string hint) {
        errors.push_back({value.position, std::move(message), std::move(hint)});
      });
      break;
    case Value::Kind::boolean:
      result = Json::boolean(value.boolean);
      break;
    case Value::Kind::integer:
    case Value::Kind::real:
      result = Json::number(value.text);
      if (!sql::encode::is_json_number(value.text.data(), value.text.size()))
        errors.push_back({value.position, "JSON has no such number"});
      break;
    case Value::Kind::date:
      break;  // reported by the reader
    case Value::Kind::list:
      result.kind = Json::Kind::array;
      for (const Value& item : value.items) result.items.push_back(convert(item, side, errors));
      break;
    case Value::Kind::table:
      result.kind = Json::Kind::object;
      for (const config::Entry& entry : value.entries) {
        result.members.push_back({entry.key.value, convert(entry.value, side, errors)});
      }
      break;
  }
  return result;
}

bool meets_marker(std::string_view marker, const Json* got) {
  using Kind = Json::Kind;
  if (marker == "#absent") return got == nullptr;
  if (got == nullptr) return false;
  if (marker == "#any") return true;
  if (marker == "#null") return got->kind == Kind::null;
  if (marker == "#boolean") return got->kind == Kind::boolean;
  if (marker == "#number") return got->kind == Kind::number;
  if (marker == "#string") return got->kind == Kind::string;
  if (marker == "#array") return got->kind == Kind::array;
  if (marker == "#object") return got->kind == Kind::object;
  if (got->kind != Kind::string) return false;
  const std::string_view text = marker.substr(std::min(marker.find(' '), marker.size() - 1) + 1);
  if (marker.starts_with("#contains ")) return got->text.contains(text);
  const re2::RE2 pattern({text.data(), text.size()}, quiet());
  return pattern.ok() && re2::RE2::PartialMatch(got->text, pattern);
}

class Comparison {
 public:
  Comparison(Match match, std::vector<Difference>& out) : match_(match), out_(out) {}

  void values(const Json& expected, const Json* got, const std::string& path) {
    using Kind = Json::Kind;
    if (expected.kind == Kind::marker) {
      if (!meets_marker(expected.text, got)) differ(path, expected, got);
      return;
    }
    if (got == nullptr || got->kind != expected.kind) return differ(path, expected, got);
    switch (expected.kind) {
      case Kind::null:
      case Kind::marker:
        break;
      case Kind::number:
        if (!same_number(expected.text, got->text)) differ(path, expected, got);
        break;
      case Kind::boolean:
      case Kind::string:
        if (expected.text != got->text) differ(path, expected, got);
        break;
      case Kind::array:
        lists(expected, *got, path);
        break;
      case Kind::object:
        objects(expected, *got, path);
        break;
    }
  }

  // Assigns each expected row a different row that matches it, if such an assignment exists. A row may match several.
  void rows_in_any_order(const Json& expected, const Json& got, const std::string& path) {
    const std::size_t wanted = expected.items.size();
    std::vector<std::vector<std::size_t>> candidates(wanted);
    for (std::size_t i = 0; i < wanted; ++i) {
      for (std::size_t j = 0; j < got.items.size(); ++j) {
        std::vector<Difference> none;
        Comparison(match_, none).values(expected.items[i], &got.items[j], path);
        if (none.empty()) candidates[i].push_back(j);
      }
    }
    constexpr std::size_t nobody = SIZE_MAX;
    std::vector<std::size_t> taken_by(got.items.size(), nobody);
    std::vector<bool> asked;
    const std::function<bool(std::size_t)> place = [&](std::size_t row) {
      for (const std::size_t candidate : candidates[row]) {
        if (asked[candidate]) continue;
        asked[candidate] = true;
        if (taken_by[candidate] != nobody && !place(taken_by[candidate])) continue;
        taken_by[candidate] = row;
        return true;
      }
      return false;
    };
    for (std::size_t i = 0; i < wanted; ++i) {
      asked.assign(got.items.size(), false);
      if (!place(i)) out_.push_back({path, print_json(expected.items[i]), "no such row"});
    }
    for (std::size_t j = 0; j < got.items.size(); ++j) {
      if (taken_by[j] == nobody) out_.push_back({path, "no such row", print_json(got.items[j])});
    }
  }

 private:
  void differ(const std::string& path, const Json& expected, const Json* got) {
    out_.push_back({path, print_json(expected), got == nullptr ? "nothing" : print_json(*got)});
  }

  void lists(const Json& expected, const Json& got, const std::string& path) {
    const std::size_t both = std::min(expected.items.size(), got.items.size());
    for (std::size_t i = 0; i < both; ++i) values(expected.items[i], &got.items[i], fmt::format("{}.{}", path, i));
    for (std::size_t i = both; i < expected.items.size(); ++i) {
      values(expected.items[i], nullptr, fmt::format("{}.{}", path, i));
    }
    for (std::size_t i = both; i < got.items.size(); ++i) {
      out_.push_back({fmt::format("{}.{}", path, i), "nothing", print_json(got.items[i])});
    }
  }

  void objects(const Json& expected, const Json& got, const std::string& path) {
    for (const auto& [name, member] : expected.members) values(member, got.find(name), path + "." + name);
    if (match_ == Match::subset) return;
    for (const auto& [name, member] : got.members) {
      if (expected.find(name) == nullptr) out_.push_back({path + "." + name, "nothing", print_json(member)});
    }
  }

  Match match_;
  std::vector<Difference>& out_;
};

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Moves an error's place from a part of a text to the text.
JsonError moved(JsonError error, std::size_t by) {
  error.offset = error.offset.value_or(0) + by;
  return error;
}

}  // namespace

Json json_of(const Value& value, Side side, const config::Source& source, std::vector<config::Diagnostic>& errors) {
  if (value.kind != Value::Kind::string) return convert(value, side, errors);
  const auto pieces = split_variables(value.text);
  if (pieces && pieces->size() == 1 && pieces->front().is_variable) return Json::string(value.text);
  auto parsed = parse_json(value.text);
  if (!parsed) {
    const std::uint32_t character = sql::character_position(value.text, parsed.error().offset.value_or(0));
    errors.push_back({source.locate(value.position, character), "this is not JSON: " + parsed.error().message,
                      "a string here is JSON text; write a table, or a list of tables"});
    return {};
  }
  take_markers(*parsed, side, [&](std::string message, std::string hint) {
    errors.push_back({value.position, std::move(message), std::move(hint)});
  });
  return std::move(*parsed);
}

Json text_expectation(const Located<std::string>& text, std::vector<config::Diagnostic>& errors) {
  Json result = Json::string(text.value);
  take_marker(result, Side::expectation, [&](std::string message, std::string hint) {
    errors.push_back({text.position, std::move(message), std::move(hint)});
  });
  return result;
}

std::expected<Json, JsonError> parse_table(std::string_view text) {
  std::vector<std::string> names;
  Json rows = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    const auto line_at = static_cast<std::size_t>(line.data() - text.data());
    at = end + 1;
    if (line.empty()) continue;
    if (names.empty()) {
      if (line.contains('"')) {
        auto quoted = parse_json_values(line);
        if (!quoted) return std::unexpected(moved(std::move(quoted.error()), line_at));
        for (Json& name : *quoted) names.push_back(text_of(name));
      } else {
        for (std::size_t from = 0; from <= line.size();) {
          const std::size_t comma = std::min(line.find(',', from), line.size());
          names.emplace_back(trim(line.substr(from, comma - from)));
          from = comma + 1;
        }
      }
      for (const std::string& name : names) {
        if (name.empty() || std::ranges::count(names, name) > 1) {
          return std::unexpected(JsonError{
              line_at, name.empty() ? "a column without a name" : fmt::format("the column \"{}\" comes twice", name)});
        }
      }
      continue;
    }
    auto values = parse_json_values(line);
    if (!values) return std::unexpected(moved(std::move(values.error()), line_at));
    if (values->size() != names.size()) {
      return std::unexpected(JsonError{
          line_at, fmt::format("this row has {} values, and there are {} columns", values->size(), names.size())});
    }
    Json& row = rows.items.emplace_back(Json::object());
    for (std::size_t i = 0; i < names.size(); ++i) row.members.push_back({names[i], std::move((*values)[i])});
  }
  if (names.empty()) return std::unexpected(JsonError{0, "a table begins with a line of its columns' names"});
  return rows;
}

std::vector<Difference> compare(const Json& expected, const Json& got, Match match, Order order,
                                const std::string& path) {
  std::vector<Difference> differences;
  Comparison comparison(match, differences);
  if (order == Order::any && expected.kind == Json::Kind::array && got.kind == Json::Kind::array) {
    comparison.rows_in_any_order(expected, got, path);
  } else {
    comparison.values(expected, &got, path);
  }
  return differences;
}

bool meets(const Json& expected, const Json* got) {
  if (expected.kind == Json::Kind::marker) return meets_marker(expected.text, got);
  return got != nullptr && text_of(expected) == text_of(*got);
}

std::string print_table(const Json& rows, const Json& expected) {
  if (rows.kind != Json::Kind::array || expected.items.empty()) return {};
  std::string text;
  for (const Json& row : rows.items) {
    bool first = true;
    for (const auto& [name, ignored] : expected.items.front().members) {
      const Json* const value = row.find(name);
      if (!std::exchange(first, false)) text += ", ";
      text += value == nullptr ? "" : print_json(*value);
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice::app::suite
