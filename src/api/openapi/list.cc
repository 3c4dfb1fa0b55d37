#include "api/openapi/list.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice::api::openapi {
namespace {

using list::Plan;

void add(Json::Array& parameters, std::string_view name, std::string_view description, Json schema) {
  parameters.push_back({{"name", name}, {"in", "query"}, {"description", description}, {"schema", std::move(schema)}});
}

// A comma-separated list of distinct names.
void add_names(Json::Array& parameters, std::string_view name, std::string_view description, Json::Array names) {
  if (names.empty()) return;
  parameters.push_back(
      {{"name", name},
       {"in", "query"},
       {"description", description},
       {"explode", false},
       {"schema",
        {{"type", "array"}, {"items", {{"enum", std::move(names)}}}, {"minItems", 1}, {"uniqueItems", true}}}});
}

Json::Object number(std::uint64_t most) {
  return {{"type", "integer"}, {"minimum", 0}, {"maximum", static_cast<std::int64_t>(most)}};
}

std::string meaning_of(const query::Column& column, const query::Bounds& bounds) {
  std::string text = column.labels.empty()
                         ? fmt::format("Rows with this value, {}.", resident::describe(column.type))
                         : fmt::format("Rows with this value, one of: {}.", fmt::join(column.labels, ", "));
  text += fmt::format(" Or `neq.` another one; `in.(...)` one of up to {}; `is.null`, `is.not_null`", bounds.values);
  if (column.is_boolean) text += ", `is.true`, `is.false`";
  if (column.orders) text += "; `gt.`, `gte.`, `lt.`, `lte.`";
  if (column.is_text) text += "; `like.`, with `*` for any characters";
  return text + ". `not.` before the operator negates it. `eq.` before a value that looks like an operator.";
}

}  // namespace

void add_list_parameters(const Plan& plan, Json::Array& parameters) {
  const query::Vocabulary& words = plan.vocabulary;
  Json::Array sorts;
  Json::Array shows;
  for (const query::Column& column : words.columns) {
    if (column.filters) {
      parameters.push_back({{"name", column.name},
                            {"in", "query"},
                            {"description", meaning_of(column, words.bounds)},
                            {"explode", true},
                            {"schema", {{"type", "array"}, {"items", {{"type", "string"}}}}}});
    }
    if (column.sorts) {
      sorts.emplace_back(column.name);
      sorts.emplace_back("-" + column.name);
    }
    if (column.shows) shows.emplace_back(column.name);
  }
  const Json text = {{"type", "string"}};
  add(parameters, "or", "`(a.eq.1,and(b.gt.2,b.lt.3))`: one of these conditions is true.", text);
  add(parameters, "and", "`(a.eq.1,or(b.gt.2,b.lt.3))`: all of these conditions are true.", text);
  if (words.searches) add(parameters, "q", "Words that the rows contain, all of them.", text);
  add_names(parameters, "sort", "In ascending order of these, or descending with a `-`.", std::move(sorts));
  Json::Object limit = number(plan.most_rows);
  limit.emplace_back("default", static_cast<std::int64_t>(plan.standard_limit));
  add(parameters, "limit", "How many rows at most.", std::move(limit));
  add(parameters, "offset", "How many rows are passed over.", number(plan.max_offset));
  if (words.pages) add(parameters, "after", "The rows behind this cursor, which a `Link` field gave.", text);
  if (words.pages) add(parameters, "before", "The rows in front of this cursor, which a `Link` field gave.", text);
  add_names(parameters, "fields", "These members of the rows alone, in this order.", std::move(shows));
  if (words.counts) {
    add(parameters, "count", "Adds `X-Total-Count`: the number of all rows that meet the conditions.",
        {{"enum", Json::Array{"exact", "estimated"}}});
  }
}

}  // namespace sluice::api::openapi
