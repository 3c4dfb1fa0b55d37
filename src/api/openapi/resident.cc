#include "api/openapi/resident.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/openapi/schema.h"

namespace sluice::api::openapi {
namespace {

using resident::Kind;
using resident::ValueType;

// The columns with an index, in the order of the query.
std::vector<query::Column> indexed_columns(const resident::Plan& plan) {
  std::vector<query::Column> columns = vocabulary_of(plan.shape, plan.statement.columns).columns;
  std::erase_if(columns, [](const query::Column& column) { return !column.filters; });
  return columns;
}

// A regular expression for single values. It excludes commas and quotes, and may exclude notations that the server also
// accepts. Empty if every text is accepted.
std::string_view pattern_of(const ValueType& type) {
  constexpr std::string_view number = R"(-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]{1,3})?|NaN|-?Infinity)";
  if (type.spelling == ValueType::Spelling::numeric) return number;
  if (type.spelling == ValueType::Spelling::boolean) return "true|false";
  switch (type.kind) {
    case Kind::integer:
      return "-?([0-9]{1,18}|[0-8][0-9]{18})";  // 64 bits, except for the values from 9e18 on
    case Kind::number:
      return number;
    case Kind::boolean:
      return "true|false";
    case Kind::date:
      return "[0-9]{4,7}-[0-9]{2}-[0-9]{2}|-?infinity";
    case Kind::timestamp:
      return R"([0-9]{4,7}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?|-?infinity)";
    case Kind::timestamp_tz:
      return R"([0-9]{4,7}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[-+][0-9]{2}(:?[0-9]{2})?)?)?)"
             R"(|-?infinity)";
    case Kind::uuid:
      return "[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}";
    case Kind::text:
    case Kind::dynamic:
      break;
  }
  return {};
}

Json condition_schema(const query::Column& column) {
  const std::string_view pattern = pattern_of(column.type);
  const std::string_view null = column.is_boolean ? "(not_)?null|true|false" : "(not_)?null";
  if (!pattern.empty()) {
    const std::string_view operators = column.orders ? "n?eq|gt|gte|lt|lte" : "n?eq";
    return {{"type", "string"},
            {"pattern", fmt::format(R"(^(((not\.)?({0})\.)?({1})|(not\.)?(in\.\((({1})(,({1}))*)?\)|is\.({2})))$)",
                                    operators, pattern, null)}};
  }
  // A text with the beginning of an operator is read as an operator.
  std::string begins = column.orders ? "i[ns]" : "i[ns]|[gl]te?";
  if (!column.is_text) begins += "|like";
  constexpr std::string_view item = R"(([^",][^,]*|"([^"\\]|\\.)*"))";
  return {{"type", "string"},
          {"anyOf", Json::Array{{{"not", {{"pattern", fmt::format(R"(^(not\.)?({})\.)", begins)}}}},
                                {{"pattern", fmt::format(R"(^(not\.)?in\.\(({0}(,{0})*)?\)$)", item)}},
                                {{"pattern", fmt::format(R"(^(not\.)?is\.({})$)", null)}}}}};
}

Json condition(const query::Column& column, std::size_t count) {
  const char* const one = column.type.is_single() ? "Rows with this value" : "Rows among whose values this is";
  std::string text = fmt::format("{}: {}. Or `in.(1,2,3)`, one of up to {}; `neq.`; `is.null`, `is.not_null`", one,
                                 resident::describe(column.type), resident::query_bounds.values);
  if (column.is_boolean) text += ", `is.true`, `is.false`";
  if (column.orders) text += "; a range, `gt.`, `gte.`, `lt.`, `lte.`";
  if (column.is_text) text += "; `like.`, where `*` stands for any characters";
  text += "; `not.` before each of these; `eq.` before what looks like one. Several conditions hold together.";
  // With this limit per column, all columns together stay within the bound.
  const std::size_t most = std::max<std::size_t>(1, resident::query_bounds.conditions / count);
  return {{"name", column.name},
          {"in", "query"},
          {"description", text},
          {"explode", true},
          {"schema", {{"type", "array"}, {"items", condition_schema(column)}, {"maxItems", most}}}};
}

void add_group(std::string_view name, std::string_view description, Json::Array& parameters) {
  parameters.push_back(
      {{"name", name},
       {"in", "query"},
       {"description", fmt::format("{}, as in `(a.eq.1,b.not.in.(2,3),and(c.gt.4,c.lt.5))`. `not.{}` is the opposite.",
                                   description, name)},
       {"schema", {{"type", "string"}, {"pattern", R"(^\(.+\)$)"}}}});
}

// A comma-separated list of distinct names. `more`: further members of its schema.
Json list_parameter(std::string_view name, std::string_view description, Json::Array names,
                    const Json::Object& more = {}) {
  Json::Object schema = {
      {"type", "array"}, {"items", {{"enum", std::move(names)}}}, {"minItems", 1}, {"uniqueItems", true}};
  schema.insert(schema.end(), more.begin(), more.end());
  return {
      {"name", name}, {"in", "query"}, {"description", description}, {"explode", false}, {"schema", std::move(schema)}};
}

// A list has no way to escape a comma.
bool is_listable(std::string_view name) { return !name.contains(','); }

void add_sort(const std::vector<query::Column>& columns, Json::Array& parameters) {
  Json::Array names;
  Json::Array both;
  for (const query::Column& column : columns) {
    if (!is_listable(column.name) || !column.sorts) continue;
    names.emplace_back(column.name);
    names.emplace_back("-" + column.name);
    both.push_back({{"not",
                     {{"allOf", Json::Array{{{"contains", {{"const", column.name}}}},
                                            {{"contains", {{"const", "-" + column.name}}}}}}}}});
  }
  if (names.empty()) return;
  parameters.push_back(list_parameter("sort",
                                      "In ascending order of these, or descending with a `-`; else in the query's.",
                                      std::move(names), {{"allOf", std::move(both)}}));
}

void add_count(std::string_view name, std::string_view description, Json::Array& parameters) {
  parameters.push_back(
      {{"name", name},
       {"in", "query"},
       {"description", description},
       {"schema", {{"type", "integer"}, {"format", "int64"}, {"minimum", 0}, {"maximum", INT64_MAX}}}});
}

}  // namespace

Json resident_key_schema(const resident::Plan& plan) {
  const auto column = std::ranges::find(plan.statement.columns, plan.shape.key, &sql::Column::name);
  const ValueType type = *ValueType::of(*column);
  Schema schema = schema_of(*column);
  if (type.kind == Kind::integer) {
    schema = schema_of(sql::ParameterType::integer);
  } else if (type.kind == Kind::number || type.spelling == ValueType::Spelling::numeric) {
    if (schema.type != "integer") schema = schema_of(sql::ParameterType::real);
  } else if (schema.type != "string" && schema.type != "boolean") {
    schema = schema_of(sql::ParameterType::text);
  }
  if (schema.type == "string") schema.members.emplace_back("minLength", 1);
  return schema.json(Schema::Null::never);
}

void add_resident_parameters(const resident::Plan& plan, Json::Array& parameters) {
  const auto columns = indexed_columns(plan);
  for (const query::Column& column : columns) parameters.push_back(condition(column, columns.size()));
  if (!columns.empty()) {
    add_group("or", "One of these conditions holds", parameters);
    add_group("and", "All of these conditions hold", parameters);
  }
  add_sort(columns, parameters);
  add_count("limit", "How many rows at most.", parameters);
  add_count("offset", "How many rows are passed over.", parameters);
  add_fields_parameter(plan, parameters);
}

void add_fields_parameter(const resident::Plan& plan, Json::Array& parameters) {
  Json::Array names;
  for (const sql::Column& column : plan.statement.columns) {
    if (is_listable(column.name)) names.emplace_back(column.name);
  }
  if (!names.empty()) {
    parameters.push_back(list_parameter("fields", "These members of the rows alone, in this order.", std::move(names)));
  }
}

}  // namespace sluice::api::openapi
