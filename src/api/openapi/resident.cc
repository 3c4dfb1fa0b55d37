#include "api/openapi/resident.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "api/openapi/schema.h"

namespace sluice::api::openapi {
namespace {

using resident::Kind;
using resident::ValueType;

// The columns that rows are found by, in the order of the query.
std::vector<const sql::Column*> indexed_columns(const resident::Plan& plan) {
  std::vector<const sql::Column*> columns;
  for (const sql::Column& column : plan.statement.columns) {
    const auto& index = plan.shape.index;
    if (column.name == plan.shape.key || std::ranges::find(index, column.name) != index.end())
      columns.push_back(&column);
  }
  return columns;
}

// A regular expression for values, without commas or quotes among them. Empty: any text is taken. It may leave out
// spellings that the server takes too.
std::string_view pattern_of(const ValueType& type) {
  constexpr std::string_view number = R"(-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]{1,3})?|NaN|-?Infinity)";
  if (type.spelling == ValueType::Spelling::numeric) return number;
  if (type.spelling == ValueType::Spelling::boolean) return "true|false";
  switch (type.kind) {
    case Kind::integer:
      return "-?([0-9]{1,18}|[0-8][0-9]{18})";  // 64 bits, all but the last 0.2e18
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

std::string condition_schema(const ValueType& type) {
  const std::string_view pattern = pattern_of(type);
  const std::string_view operators = type.orders() ? "eq|gt|gte|lt|lte" : "eq";
  if (!pattern.empty()) {
    return JsonObject()
        .add_text("type", "string")
        .add_text("pattern",
                  fmt::format(R"(^((({0})\.)?({1})|in\.\((({1})(,({1}))*)?\)|is\.(not_)?null)$)", operators, pattern))
        .text();
  }
  // A text that begins like an operator is one.
  JsonArray either;
  either.add(
      JsonObject()
          .add("not", JsonObject().add_text("pattern", type.orders() ? R"(^i[ns]\.)" : R"(^(i[ns]|[gl]te?)\.)").text())
          .text());
  constexpr std::string_view item = R"(([^",][^,]*|"([^"\\]|\\.)*"))";
  either.add(JsonObject().add_text("pattern", fmt::format(R"(^in\.\(({0}(,{0})*)?\)$)", item)).text());
  either.add(JsonObject().add_text("pattern", R"(^is\.(not_)?null$)").text());
  return JsonObject().add_text("type", "string").add("anyOf", either.text()).text();
}

std::string condition(const sql::Column& column, const ValueType& type, std::size_t count) {
  const char* const one = type.is_single() ? "Rows with this value" : "Rows among whose values this is";
  std::string text = fmt::format("{}: {}. Or `in.(1,2,3)`, one of up to {}; `is.null`, `is.not_null`", one,
                                 resident::describe(type), resident::most_values);
  if (type.orders()) text += "; a range, `gt.`, `gte.`, `lt.`, `lte.`";
  text += "; `eq.` before what looks like one of these. Several conditions hold together.";
  JsonObject schema;
  schema.add_text("type", "array").add("items", condition_schema(type));
  // What all of them together may never pass.
  schema.add("maxItems", std::to_string(std::max<std::size_t>(1, resident::most_conditions / count)));
  return JsonObject()
      .add_text("name", column.name)
      .add_text("in", "query")
      .add_text("description", text)
      .add("explode", "true")
      .add("schema", schema.text())
      .text();
}

// A list of different names between commas. `more`: further members of its schema, each behind a comma.
std::string list_parameter(std::string_view name, std::string_view description, const JsonArray& names,
                           std::string_view more = {}) {
  const std::string items = JsonObject().add("enum", names.text()).text();
  return JsonObject()
      .add_text("name", name)
      .add_text("in", "query")
      .add_text("description", description)
      .add("explode", "false")
      .add("schema", fmt::format(R"({{"type":"array","items":{},"minItems":1,"uniqueItems":true{}}})", items, more))
      .text();
}

// Within a list there is no way to write it.
bool is_listable(const sql::Column& column) { return !column.name.contains(','); }

void add_sort(const std::vector<const sql::Column*>& columns, JsonArray& parameters) {
  JsonArray names;
  JsonArray both;
  for (const sql::Column* column : columns) {
    if (!is_listable(*column) || !ValueType::of(*column)->orders()) continue;
    names.add_text(column->name).add_text("-" + column->name);
    both.add(fmt::format(R"({{"not":{{"allOf":[{{"contains":{{"const":{}}}}},{{"contains":{{"const":{}}}}}]}}}})",
                         json_string(column->name), json_string("-" + column->name)));
  }
  if (names.empty()) return;
  parameters.add(list_parameter("sort", "In ascending order of these, or descending with a `-`; else in the query's.",
                                names, ",\"allOf\":" + both.text()));
}

void add_count(std::string_view name, std::string_view description, JsonArray& parameters) {
  parameters.add(JsonObject()
                     .add_text("name", name)
                     .add_text("in", "query")
                     .add_text("description", description)
                     .add("schema", R"({"type":"integer","format":"int64","minimum":0,"maximum":9223372036854775807})")
                     .text());
}

}  // namespace

std::string resident_key_schema(const resident::Plan& plan) {
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
  if (schema.type == "string") schema.members += ",\"minLength\":1";
  return schema.json(Schema::Null::never);
}

void add_resident_parameters(const resident::Plan& plan, JsonArray& parameters) {
  const auto columns = indexed_columns(plan);
  for (const sql::Column* column : columns) {
    parameters.add(condition(*column, *ValueType::of(*column), columns.size()));
  }
  add_sort(columns, parameters);
  add_count("limit", "How many rows at most.", parameters);
  add_count("offset", "How many rows are passed over.", parameters);
  add_fields_parameter(plan, parameters);
}

void add_fields_parameter(const resident::Plan& plan, JsonArray& parameters) {
  JsonArray names;
  for (const sql::Column& column : plan.statement.columns) {
    if (is_listable(column)) names.add_text(column.name);
  }
  if (!names.empty()) {
    parameters.add(list_parameter("fields", "These members of the rows alone, in this order.", names));
  }
}

}  // namespace sluice::api::openapi
