#include "sql/postgres/parallel_plan.h"

#include <algorithm>
#include <optional>

#include <simdjson.h>

#include "base/ascii.h"
#include "sql/parallel.h"

namespace sluice::sql::postgres {
namespace {

using simdjson::dom::element;

constexpr int most_depth = 64;

void trim_end(std::string_view& text) {
  while (!text.empty() && (text.back() == ' ' || (text.back() >= '\t' && text.back() <= '\r'))) text.remove_suffix(1);
}

bool is_name(char c) {
  return (to_lower(c) >= 'a' && to_lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (c & 0x80) != 0;
}

// Whether `before` ends with `ctid >=` or `ctid <`, according to `direction`.
bool compares_ctid(std::string_view before, char direction) {
  trim_end(before);
  if (before.ends_with('=')) before.remove_suffix(1);
  if (!before.ends_with(direction)) return false;
  before.remove_suffix(1);
  trim_end(before);
  constexpr std::string_view name = "ctid";
  if (before.size() < name.size()) return false;
  const std::string_view last = before.substr(before.size() - name.size());
  if (!std::equal(name.begin(), name.end(), last.begin(), [](char a, char b) { return a == to_lower(b); }))
    return false;
  return before.size() == name.size() || !is_name(before[before.size() - name.size() - 1]);
}

std::string_view text_of(const element& node, std::string_view key) {
  std::string_view text;
  if (node[key].get(text) != simdjson::SUCCESS) return {};
  return text;
}

// "((films.ctid >= $1) AND (films.ctid < $2))"
bool has_condition(std::string_view condition, std::string_view operation, std::size_t parameter) {
  const std::string wanted = "ctid " + std::string(operation) + " $" + std::to_string(parameter + 1) + ")";
  const std::string or_equal = "ctid " + std::string(operation) + "= $" + std::to_string(parameter + 1) + ")";
  return condition.contains(wanted) || condition.contains(or_equal);
}

// Whether the node's output for one input row (one row, several or none) depends on that row alone.
bool takes_one_row(std::string_view node) {
  return node == "Result" || node == "ProjectSet" || node == "Subquery Scan";
}

std::string crosses(std::string_view node) {
  return "its rows would not be those of the table, each by itself: the plan has a node \"" + std::string(node) +
         "\" above the ranges. A statement that is read in parallel has no ORDER BY, LIMIT, DISTINCT, aggregates, "
         "joins "
         "or UNION";
}

std::string not_by_range(std::string_view node) {
  return "the plan reads by \"" + std::string(node) +
         "\" and not by \"Tid Range Scan\": the statement must select from one table, WHERE ctid >= :ctid_from AND "
         "ctid "
         "< :ctid_to (PostgreSQL 14 or newer)";
}

}  // namespace

std::expected<RangeParameters, std::string> find_range(const ParsedSql& parsed) {
  const std::string_view text = parsed.text;
  const auto find = [&](std::string_view name, char direction) -> std::expected<std::size_t, std::string> {
    const auto known = std::ranges::find(parsed.names, name);
    if (known == parsed.names.end()) {
      return std::unexpected(
          "a statement that is read in parallel says which range of a table it is asked for: WHERE "
          "ctid >= :ctid_from AND ctid < :ctid_to");
    }
    const auto index = static_cast<std::size_t>(known - parsed.names.begin());
    const std::string placeholder = "$" + std::to_string(index + 1);
    std::size_t seen = 0;
    bool fits = true;
    for (const auto& one : parsed.placeholders) {
      if (text.substr(one.begin, one.end - one.begin) != placeholder) continue;
      ++seen;
      fits &= compares_ctid(text.substr(0, one.begin), direction);
    }
    if (seen == 1 && fits) return index;
    return std::unexpected(":" + std::string(name) + " must stand once in the statement, as in `ctid " +
                           std::string(direction == '>' ? ">=" : "<") + " :" + std::string(name) + "`");
  };
  const auto from = find(range_begin_parameter, '>');
  if (!from) return std::unexpected(from.error());
  const auto to = find(range_end_parameter, '<');
  if (!to) return std::unexpected(to.error());
  return RangeParameters{*from, *to};
}

std::expected<ScannedTable, std::string> check_plan(std::string_view json, RangeParameters range) {
  const auto unknown = [] { return std::unexpected(std::string("the server's EXPLAIN cannot be read")); };
  simdjson::dom::parser parser;
  element document;
  element node;
  if (parser.parse(json.data(), json.size()).get(document) != simdjson::SUCCESS) return unknown();
  if (document.at(0)["Plan"].get(node) != simdjson::SUCCESS) return unknown();
  for (int depth = 0; depth < most_depth; ++depth) {
    const std::string_view type = text_of(node, "Node Type");
    if (type.empty()) return unknown();
    // Sub-plans run once per row and do not depend on the range.
    std::optional<element> below;
    simdjson::dom::array plans;
    if (node["Plans"].get(plans) == simdjson::SUCCESS) {
      for (const element child : plans) {
        const std::string_view relation = text_of(child, "Parent Relationship");
        if (relation == "InitPlan" || relation == "SubPlan") continue;
        if (below || (relation != "Outer" && relation != "Subquery")) return std::unexpected(crosses(type));
        below = child;
      }
    }
    if (type == "Tid Range Scan" && !below) {
      const std::string_view condition = text_of(node, "TID Cond");
      ScannedTable table{std::string(text_of(node, "Schema")), std::string(text_of(node, "Relation Name"))};
      if (table.schema.empty() || table.name.empty()) return unknown();
      if (has_condition(condition, ">", range.from) && has_condition(condition, "<", range.to)) return table;
      return std::unexpected("the table is not read by both :ctid_from and :ctid_to, but by " + std::string(condition));
    }
    if (!below) return std::unexpected(not_by_range(type));
    if (!takes_one_row(type)) return std::unexpected(crosses(type));
    node = *below;
  }
  return unknown();
}

}  // namespace sluice::sql::postgres
