#include "app/config/values.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "api/openapi/schema.h"
#include "app/config/text.h"
#include "http/router.h"
#include "sql/parameters.h"

namespace sluice::app::config {
namespace {

using api::openapi::Schema;
using sql::ParameterType;

// What the database wants, in words; nothing: whatever can be written as text.
std::string_view words_of(const Schema& schema) {
  if (schema.type == "integer") return "an integer";
  if (schema.type == "number") return "a number";
  if (schema.type == "boolean") return "a boolean";
  if (schema.members.contains("uuid")) return "a UUID";
  if (schema.members.contains("date-time")) return "a time";
  if (schema.members.contains("date")) return "a date";
  return {};
}

std::string_view name_of(ParameterType type) {
  switch (type) {
    case ParameterType::text:
      return "text";
    case ParameterType::integer:
      return "int";
    case ParameterType::real:
      return "real";
    case ParameterType::boolean:
      return "bool";
  }
  return "text";
}

// Whether values that are checked as `declared` are, as a rule, none for the database.
bool contradicts(ParameterType declared, const Schema& schema) {
  if (schema.type == "integer") return declared != ParameterType::integer;
  if (schema.type == "number") return declared != ParameterType::integer && declared != ParameterType::real;
  if (schema.type == "boolean") return declared != ParameterType::boolean;
  return !words_of(schema).empty() && declared != ParameterType::text;
}

// A default without a declared type. What only the database can read is left to it.
bool is_none(std::string_view text, const Schema& schema) {
  if (schema.type == "integer") return !sql::fits(ParameterType::integer, text);
  if (schema.type == "boolean") {
    static constexpr std::string_view more[] = {"yes", "no", "on", "off", "y", "n"};
    return !sql::fits(ParameterType::boolean, text) && std::ranges::find(more, text) == std::end(more);
  }
  if (schema.type != "number" || sql::fits(ParameterType::real, text)) return false;
  static constexpr std::string_view more[] = {"NaN", "Infinity", "-Infinity"};
  return std::ranges::find(more, text) == std::end(more);
}

// What the file says of a value.
struct Said {
  const api::ParamOptions* options = nullptr;  // null: nothing but its name
  Position position;                           // of the options' name, or where the path names it
};

Said said_of(const api::EndpointOptions& endpoint, const api::MethodOptions* method, std::string_view name,
             const Source& source) {
  if (method != nullptr) {
    const auto column = std::ranges::find(method->columns, name, [](const auto& one) { return one.name.value; });
    if (column != method->columns.end()) return {&column->value, column->name.position};
  }
  const auto param = std::ranges::find(endpoint.params, name, [](const auto& one) { return one.name.value; });
  if (param != endpoint.params.end()) return {&param->value, param->name.position};
  const auto in_path = endpoint.path.value.find("/{" + std::string(name));
  if (in_path == std::string::npos) return {nullptr, endpoint.position};
  const auto character = count_characters(endpoint.path.value.substr(0, in_path)) + 2;
  return {nullptr, source.locate(endpoint.path.position, character)};
}

bool is_of_numbers(const Schema& schema) {
  return schema.type == "integer" || schema.type == "number" || schema.type == "boolean";
}

bool is_key(const api::MethodOptions* method, std::string_view column) {
  return method != nullptr && std::ranges::any_of(method->columns, [&](const auto& one) {
           return one.value.key && one.name.value == column;
         });
}

}  // namespace

void check_values(const api::EndpointOptions& endpoint, const api::MethodOptions* method, const sql::Table* table,
                  sql::Dialect dialect, std::span<const BoundValue> values, const Source& source,
                  std::vector<Diagnostic>& errors) {
  const auto complain = [&](Position position, std::string message, std::string hint = {}) {
    Diagnostic found{position, "endpoint " + endpoint.path.value + ": " + std::move(message), std::move(hint)};
    const auto same = [&](const Diagnostic& one) {
      return one.position == found.position && one.message == found.message;
    };
    if (std::ranges::none_of(errors, same)) errors.push_back(std::move(found));  // it may be in several statements
  };
  std::map<std::string_view, const api::Source*> in_query;
  for (const auto& [value, oid, type, in_key] : values) {
    if (value->asks_presence) continue;
    const Said said = said_of(endpoint, method, value->name, source);
    const api::ParamOptions* const options = said.options;
    const auto* const column = table != nullptr ? table->find(value->name) : nullptr;
    const std::string_view declared = column != nullptr ? std::string_view(column->type) : type;
    Schema schema = declared.empty() ? api::openapi::schema_of_oid(oid) : api::openapi::schema_of_type_name(declared);
    if (dialect == sql::Dialect::sqlite && !is_of_numbers(schema)) schema = {};
    const bool is_flag = dialect == sql::Dialect::sqlite && schema.type == "integer" && !in_key &&
                         !is_key(method, value->name) && value->type == ParameterType::boolean;
    const bool is_number =
        dialect == sql::Dialect::sqlite && schema.type == "boolean" && value->type == ParameterType::integer;
    if (value->checked && !is_flag && !is_number && contradicts(value->type, schema)) {
      complain(options != nullptr && options->type ? options->type->position : said.position,
               fmt::format("\"{}\" is declared as {}, and the database takes it for {}", value->name,
                           name_of(value->type), words_of(schema)));
    }
    if (value->default_text && options != nullptr) {
      const bool fits =
          value->checked ? sql::fits(value->type, *value->default_text) : !is_none(*value->default_text, schema);
      if (!fits && value->from == api::From::environment && options->from) {
        complain(options->from->position,
                 fmt::format("what the environment says does not fit the type of \"{}\"", value->name));
      } else if (!fits && options->default_value) {
        complain(options->default_value->position,
                 fmt::format("this default of \"{}\" is not {}", value->name,
                             value->checked ? name_of(value->type) : words_of(schema)));
      }
    }
    if (value->from != api::From::query) continue;
    if (value->key == "dry-run" && method != nullptr && (method->set.value || !method->existing.value.empty())) {
      complain(said.position, "a set takes the query parameter \"dry-run\" itself");
    }
    const auto [first, is_new] = in_query.emplace(value->key, value);
    if (is_new || first->second->name == value->name) continue;
    Position place = options != nullptr && options->from ? options->from->position : Position{};
    if (place.line == 0) {
      const Said other = said_of(endpoint, method, first->second->name, source);
      if (other.options != nullptr && other.options->from) place = other.options->from->position;
    }
    complain(place,
             fmt::format("\"{}\" and \"{}\" come from the same query parameter, \"{}\"", first->second->name,
                         value->name, value->key),
             "use one parameter in both places");
  }
}

bool check_columns(const api::EndpointOptions& endpoint, const api::MethodOptions& method, const sql::Table& table,
                   std::vector<Diagnostic>& errors) {
  std::vector<std::string_view> names;
  for (const sql::TableColumn& column : table.columns) names.push_back(column.name);
  bool good = true;
  for (const auto& column : method.columns) {
    const std::string& name = column.name.value;
    const sql::TableColumn* const there = table.find(name);
    std::string wrong;
    if (there == nullptr) {
      wrong = fmt::format("the table {} has no column \"{}\"", method.table.value, name);
    } else if (there->generated) {
      wrong = fmt::format("the database makes the values of \"{}\" itself", name);
    } else {
      continue;
    }
    errors.push_back({column.name.position, fmt::format("endpoint {}: {}", endpoint.path.value, wrong),
                      there == nullptr ? did_you_mean(name, names) : std::string{}});
    good = false;
  }
  return good;
}

}  // namespace sluice::app::config
