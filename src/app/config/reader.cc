#include "app/config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::app::config {
namespace {

// A string may stand for a number, which may come from the environment: cores = "${CORES:-0}".
template <class T>
std::optional<T> number_in(const Value& value) {
  T number{};
  const char* end = value.text.data() + value.text.size();
  if (!value.substituted) return {};
  auto [stopped, error] = std::from_chars(value.text.data(), end, number);
  if (error != std::errc() || stopped != end) return {};
  return number;
}

}  // namespace

std::string misplaced(std::string_view key, std::string_view table, std::string_view below) {
  return fmt::format("\"{}\" is a key of {}; it stands below {}", key, table, below);
}

std::string move_above(std::string_view table) { return fmt::format("move it above {}", table); }

bool Reader::complain(Position position, std::string message, std::string hint) {
  errors_.push_back({position, std::move(message), std::move(hint)});
  return false;
}

bool Reader::wrong_kind(const Value& value, const std::string& key, std::string_view wanted, std::string hint) {
  if (value.broken) return false;
  std::string what = key.empty() ? "the file" : key;
  return complain(value.position, fmt::format("{} must be {}, not {}", what, wanted, name_of(value.kind)),
                  std::move(hint));
}

void Reader::missing(Position position, const Place& place, std::string_view key) {
  complain(position, fmt::format("{} needs the key \"{}\"", place.table.empty() ? "the file" : place.table, key));
}

void Reader::unknown(const Entry& entry, const Place& place, const std::vector<std::string_view>& known) {
  if (const std::string* owner = owner_of(entry.key.value, scopes_.size() - 1)) {
    complain(entry.key.position, misplaced(entry.key.value, *owner, place.table), move_above(place.table));
    return;
  }
  std::string hint = did_you_mean(entry.key.value, known);
  if (hint.empty()) {
    const std::vector<std::string> tables = elsewhere_(entry.key.value);
    if (tables.size() == 1) hint = fmt::format("\"{}\" is a key of {}", entry.key.value, tables[0]);
  }
  if (hint.empty()) hint = fmt::format("known here: {}", fmt::join(known, ", "));
  complain(entry.key.position,
           fmt::format("unknown key \"{}\"{}{}", entry.key.value, place.table.empty() ? "" : " in ", place.table),
           std::move(hint));
}

void Reader::not_of_type(const Entry& entry, const Place& place, std::string_view type) {
  complain(entry.key.position,
           fmt::format("{} has no key \"{}\": that is for type = \"{}\"", place.table, entry.key.value, type));
}

const std::string* Reader::owner_of(std::string_view key, std::size_t count) const {
  for (std::size_t i = count; i-- > 1;) {  // the outermost scope is the file itself
    if (std::ranges::find(scopes_[i].keys, key) != scopes_[i].keys.end()) return &scopes_[i].table;
  }
  return nullptr;
}

bool Reader::is_misplaced(const Entry& entry, const std::string& table, std::size_t first_error) {
  if (entry.value.kind == Value::Kind::table) return false;
  const std::string* const owner = owner_of(entry.key.value, scopes_.size());
  if (owner == nullptr) return false;
  errors_.resize(first_error);
  complain(entry.key.position, misplaced(entry.key.value, *owner, "[" + table + "]"), move_above("[" + table + "]"));
  return true;
}

bool Reader::is_list(const Value& value, const std::string& key, const Rules& rules, bool of_tables) {
  if (value.kind != Value::Kind::list) {
    std::string hint;
    if (of_tables && value.kind == Value::Kind::table) hint = fmt::format("write [[{}]]", key);
    if (!of_tables && value.kind == Value::Kind::string) hint = "write [\"...\"]";
    return wrong_kind(value, key, of_tables ? "a list of tables" : "a list", std::move(hint));
  }
  auto count = static_cast<std::int64_t>(value.items.size());
  std::int64_t min = std::max<std::int64_t>(rules.min.value.value_or(0), rules.required ? 1 : 0);
  if (count < min) {
    return complain(value.position, min == 1 ? fmt::format("{} must not be empty", key)
                                             : fmt::format("{} must have at least {} items", key, min));
  }
  if (rules.max.value && count > *rules.max.value) {
    return complain(value.position, fmt::format("{} must have at most {} items", key, *rules.max.value));
  }
  return true;
}

bool Reader::is_table_of_names(const Value& value, const std::string& key) {
  if (value.kind == Value::Kind::table) return true;
  return wrong_kind(value, key, "a table of names", fmt::format("write [{}.NAME]", key));
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules&, bool& out) {
  if (value.broken) return false;
  if (value.kind == Value::Kind::boolean) {
    out = value.boolean;
  } else if (value.substituted && (value.text == "true" || value.text == "false")) {
    out = value.text == "true";
  } else {
    return wrong_kind(value, key, "true or false");
  }
  return true;
}

bool Reader::read_integer(const Value& value, const std::string& key, std::int64_t min, std::int64_t max,
                          std::int64_t& out) {
  if (value.broken) return false;
  std::optional<std::int64_t> number =
      value.kind == Value::Kind::integer ? value.integer : number_in<std::int64_t>(value);
  if (!number) return wrong_kind(value, key, "an integer");
  if (*number < min) return complain(value.position, fmt::format("{} must be at least {}", key, min));
  if (*number > max) return complain(value.position, fmt::format("{} must be at most {}", key, max));
  out = *number;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules& rules, double& out) {
  if (value.broken) return false;
  std::optional<double> number = number_in<double>(value);
  if (value.kind == Value::Kind::real) number = value.real;
  if (value.kind == Value::Kind::integer) number = static_cast<double>(value.integer);
  if (!number) return wrong_kind(value, key, "a number");
  if (!std::isfinite(*number)) return complain(value.position, fmt::format("{} must be a finite number", key));
  if (rules.min.value && *number < static_cast<double>(*rules.min.value)) {
    return complain(value.position, fmt::format("{} must be at least {}", key, *rules.min.value));
  }
  if (rules.max.value && *number > static_cast<double>(*rules.max.value)) {
    return complain(value.position, fmt::format("{} must be at most {}", key, *rules.max.value));
  }
  out = *number;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules& rules, std::string& out) {
  if (value.broken) return false;
  if (value.kind != Value::Kind::string) return wrong_kind(value, key, "a string");
  if (rules.required && value.text.empty()) return complain(value.position, fmt::format("{} must not be empty", key));
  if (rules.check) {
    std::string wrong = rules.check(value.text);
    if (!wrong.empty()) return complain(value.position, fmt::format("{} {}", key, wrong));
  }
  out = value.text;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules& rules, Duration& out) {
  if (value.broken) return false;
  constexpr std::string_view wanted = "a duration, as \"10s\" is";
  if (value.kind == Value::Kind::integer) {
    return wrong_kind(value, key, wanted, fmt::format("write \"{0}s\" or \"{0}ms\"", value.integer));
  }
  if (value.kind != Value::Kind::string) return wrong_kind(value, key, wanted);
  auto duration = parse_duration(value.text);
  if (!duration) {
    return complain(value.position, fmt::format("{} is not a duration", key),
                    "write numbers with units, as \"250ms\", \"10s\" or \"1h30m\": d, h, m, s, ms, us");
  }
  if (rules.min.value && duration->count() < *rules.min.value) {
    return complain(value.position,
                    fmt::format("{} must be at least {}", key, format_duration(Duration(*rules.min.value))));
  }
  if (rules.max.value && duration->count() > *rules.max.value) {
    return complain(value.position,
                    fmt::format("{} must be at most {}", key, format_duration(Duration(*rules.max.value))));
  }
  out = *duration;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules& rules, ByteSize& out) {
  if (value.broken) return false;
  std::optional<ByteSize> size;
  if (value.kind == Value::Kind::integer) {
    if (value.integer < 0) return complain(value.position, fmt::format("{} must be at least 0", key));
    size = ByteSize{static_cast<std::uint64_t>(value.integer)};
  } else if (value.kind == Value::Kind::string) {
    size = parse_size(value.text);
    if (!size) {
      return complain(value.position, fmt::format("{} is not a size", key),
                      "write a number of bytes, or with a unit, as \"16KiB\": B, KiB, MiB, GiB");
    }
  } else {
    return wrong_kind(value, key, "a size, as \"16KiB\" is");
  }
  auto limit = [](const Bound& bound) { return ByteSize{static_cast<std::uint64_t>(*bound.value)}; };
  if (rules.min.value && size->bytes < limit(rules.min).bytes) {
    return complain(value.position, fmt::format("{} must be at least {}", key, format_size(limit(rules.min))));
  }
  if (rules.max.value && size->bytes > limit(rules.max).bytes) {
    return complain(value.position, fmt::format("{} must be at most {}", key, format_size(limit(rules.max))));
  }
  out = *size;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules& rules, Scalar& out) {
  if (value.broken) return false;
  if (value.kind == Value::Kind::table || value.kind == Value::Kind::list || value.kind == Value::Kind::date) {
    return wrong_kind(value, key, "a string, a number or a boolean");
  }
  if (rules.check) {
    std::string wrong = rules.check(value.text);
    if (!wrong.empty()) return complain(value.position, fmt::format("{} {}", key, wrong));
  }
  out.text = value.text;
  return true;
}

bool Reader::read_value(const Value& value, const std::string& key, const Rules&, Value& out) {
  if (value.broken) return false;
  if (value.kind == Value::Kind::date) return wrong_kind(value, key, "a value that JSON has too", "write it in quotes");
  bool whole = true;
  for (const Value& item : value.items) {
    Value ignored;
    whole &= read_value(item, key, {}, ignored);
  }
  for (const Entry& entry : value.entries) {
    Value ignored;
    whole &= read_value(entry.value, key + "." + entry.key.value, {}, ignored);
  }
  if (whole) out = value;
  return whole;
}

namespace {
std::string json_of(const Value& value) {
  const auto quoted_json = [](std::string_view text) {
    Buffer escaped;
    append_json_escaped(escaped, text);
    return fmt::format("\"{}\"", escaped.view());
  };
  std::string inside;
  switch (value.kind) {
    case Value::Kind::integer:
      return fmt::to_string(value.integer);
    case Value::Kind::real:
      return fmt::to_string(value.real);
    case Value::Kind::boolean:
      return value.boolean ? "true" : "false";
    case Value::Kind::list:
      for (const Value& item : value.items) inside += (inside.empty() ? "" : ",") + json_of(item);
      return fmt::format("[{}]", inside);
    case Value::Kind::table:
      for (const Entry& entry : value.entries) {
        inside += fmt::format("{}{}:{}", inside.empty() ? "" : ",", quoted_json(entry.key.value), json_of(entry.value));
      }
      return fmt::format("{{{}}}", inside);
    default:
      return quoted_json(value.text);
  }
}

bool is_finite(const Value& value) {
  return (value.kind != Value::Kind::real || std::isfinite(value.real)) &&
         std::ranges::all_of(value.items, is_finite) &&
         std::ranges::all_of(value.entries, [](const Entry& entry) { return is_finite(entry.value); });
}
}  // namespace

bool Reader::read_value(const Value& value, const std::string& key, const Rules&, JsonOrFile& out) {
  if (value.broken) return false;
  if (value.kind == Value::Kind::table) {
    Value whole;
    if (!read_value(value, key, {}, whole)) return false;
    if (!is_finite(value)) return wrong_kind(value, key, "a table that JSON could hold");
    out.json = json_of(value);
    return true;
  }
  if (value.kind != Value::Kind::string) return wrong_kind(value, key, "a table, or the path of a file with JSON");
  const auto begin = value.text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return complain(value.position, fmt::format("{} must not be empty", key));
  (value.text[begin] == '{' ? out.json : out.file) = value.text;
  return true;
}

std::optional<std::size_t> Reader::read_name(const Value& value, const std::string& key,
                                             const std::vector<std::string_view>& names) {
  if (value.broken) return {};
  std::vector<std::string> quoted_names;
  for (std::string_view name : names) quoted_names.push_back(fmt::format("\"{}\"", name));
  std::string last = quoted_names.back();
  quoted_names.pop_back();
  std::string wanted = fmt::format("{}{}{}", fmt::join(quoted_names, ", "), quoted_names.empty() ? "" : " or ", last);
  if (value.kind != Value::Kind::string) {
    wrong_kind(value, key, wanted);
    return {};
  }
  auto found = std::ranges::find(names, value.text);
  if (found == names.end()) {
    complain(value.position, fmt::format("{} must be {}", key, wanted), did_you_mean(value.text, names));
    return {};
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace sluice::app::config
