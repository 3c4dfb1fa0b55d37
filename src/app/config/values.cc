#include "app/config/values.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "api/openapi/schema.h"
#include "app/config/text.h"
#include "base/ascii.h"
#include "http/router.h"
#include "sql/parameters.h"

namespace sluice::app::config {
namespace {

using api::openapi::Schema;
using sql::ParameterType;

// The type that the database needs, in words; empty: any text.
std::string_view words_of(const Schema& schema) {
  if (schema.type == "integer") return "an integer";
  if (schema.type == "number") return "a number";
  if (schema.type == "boolean") return "a boolean";
  if (schema.format == "uuid") return "a UUID";
  if (schema.format == "date-time") return "a time";
  if (schema.format == "date") return "a date";
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
    case ParameterType::bytes:
      return "bytes";
    default:
      return "a list";
  }
  return "text";
}

// Whether the database cannot accept values that are checked as `declared`. It reads all values as text: '1' is a
// boolean, 20240229 a date.
bool contradicts(ParameterType declared, const Schema& schema, sql::Dialect dialect) {
  if (sql::is_list(declared)) return !schema.type.empty() && schema.type != "array";
  if (schema.type == "integer") {
    return declared == ParameterType::text || declared == ParameterType::boolean || declared == ParameterType::bytes ||
           (declared == ParameterType::real && dialect == sql::Dialect::postgres);
  }
  if (schema.type == "number") return declared == ParameterType::boolean;
  if (schema.type == "boolean") return declared == ParameterType::real;
  if (schema.format == "uuid") return declared != ParameterType::text;
  return !words_of(schema).empty() && (declared == ParameterType::boolean || declared == ParameterType::real);
}

// The text in lower case, without surrounding blanks and without a sign.
std::string bare(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  const auto begin = text.find_first_not_of(blanks);
  text = begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return to_lower(text);
}

// Checks a default without a declared type, for PostgreSQL. Types that only the database can read are not checked.
bool is_none(std::string_view text, const Schema& schema) {
  const std::string read = bare(text);
  if (schema.type == "boolean") {
    const auto begins = [&](std::string_view word, std::size_t least) {
      return read.size() >= least && word.starts_with(read);
    };
    return !begins("true", 1) && !begins("false", 1) && !begins("yes", 1) && !begins("no", 1) && !begins("on", 2) &&
           !begins("off", 2) && read != "1" && read != "0";
  }
  if (schema.type != "number" && schema.type != "integer") return false;
  // PostgreSQL 16 and later read 0x1F and 1_000.
  const bool begins_as_one = !read.empty() && (read[0] == '.' || (read[0] >= '0' && read[0] <= '9'));
  if (read.starts_with("0x") || read.starts_with("0o") || read.starts_with("0b")) return false;
  if (begins_as_one && read.contains('_')) return false;
  if (schema.type == "integer") return !begins_as_one || !sql::fits(ParameterType::integer, read);
  if (read == "inf" || read == "infinity" || read == "nan") return false;
  return !begins_as_one || !sql::fits(ParameterType::real, read);
}

// Returns an error about a text of the configuration that stands for the value, such as its default, or an empty text.
// A request that relies on the default would be refused with the same message.
std::string fault_of(const std::string& text, const api::Source& value, const Schema& schema, sql::Dialect dialect) {
  api::Source alone = value;
  alone.from = api::From::environment;  // so that nothing is read from a request
  alone.required = false;
  alone.default_text = text;
  std::vector<sql::Argument> arguments;
  api::Binder binder;
  if (auto bound = binder.bind({&alone, 1}, {}, {}, arguments); !bound) return std::move(bound.error().reason);
  const bool is_left_to_server = value.checked || dialect == sql::Dialect::sqlite;
  return is_left_to_server || !is_none(text, schema) ? "" : fmt::format("must be {}", words_of(schema));
}

// Whether the database is known to use the value as something else than a number.
bool is_no_number(const Schema& schema, sql::ColumnKind column) {
  using sql::ColumnKind;
  return (!schema.type.empty() && schema.type != "integer" && schema.type != "number") || column == ColumnKind::text ||
         column == ColumnKind::value || column == ColumnKind::bytes || column == ColumnKind::boolean ||
         sql::is_json(column);
}

// Reports `values`, `min` and `max` of a value without a declared type that the database does not take.
void check_possible_values(const api::ParamOptions& options, const api::Source& value, const Schema& schema,
                           sql::Dialect dialect, const auto& complain) {
  const auto& bound = options.min ? options.min : options.max;
  if (bound && is_no_number(schema, value.column)) {
    complain(
        bound->position,
        fmt::format("\"min\" and \"max\" are for numbers, and the database does not take \"{}\" for one", value.name));
  }
  for (const auto& one : options.values) {
    const std::string fault = fault_of(one.value.text, value, schema, dialect);
    if (!fault.empty()) complain(one.position, fmt::format("this value of \"{}\" {}", value.name, fault));
  }
}

// The options of a value in the file.
struct Said {
  const api::ParamOptions* options = nullptr;  // null: the file has only its name
  Position position;                           // of the options' name, or of the name in the path
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

}  // namespace

void check_values(const api::EndpointOptions& endpoint, const api::MethodOptions* method, const sql::Table* table,
                  sql::Dialect dialect, std::span<const BoundValue> values, const Source& source,
                  std::vector<Diagnostic>& errors) {
  const auto complain = [&](Position position, std::string message, std::string hint = {}) {
    Diagnostic found{position, "endpoint " + endpoint.path.value + ": " + std::move(message), std::move(hint)};
    const auto same = [&](const Diagnostic& one) {
      return one.position == found.position && one.message == found.message;
    };
    // Several statements may have the same error.
    if (std::ranges::none_of(errors, same)) errors.push_back(std::move(found));
  };
  std::map<std::string_view, const BoundValue*> in_query;
  for (const BoundValue& bound : values) {
    const auto& [value, oid, type, row_id, of_column] = bound;
    if (value->asks_presence) continue;
    const Said said = said_of(endpoint, of_column ? method : nullptr, value->name, source);
    const api::ParamOptions* const options = said.options;
    const auto* const column = table != nullptr && of_column ? table->find(value->name) : nullptr;
    const std::string_view declared = column != nullptr ? std::string_view(column->type) : type;
    Schema schema =
        declared.empty() ? api::openapi::schema_of_oid(oid) : api::openapi::schema_of_type_name(declared, dialect);
    if (dialect == sql::Dialect::sqlite && schema.type != "integer") schema = {};
    const bool is_flag = dialect == sql::Dialect::sqlite && value->type == ParameterType::boolean &&
                         !(column != nullptr ? column->row_id : row_id);
    if (sql::is_list(value->type) && value->from != api::From::query) {
      complain(options != nullptr && options->type ? options->type->position : said.position,
               fmt::format("\"{}\" is a list, which only comes from the query string", value->name),
               fmt::format("add from = \"query.{}\"", value->name));
      continue;
    }
    if (value->checked && !is_flag && contradicts(value->type, schema, dialect)) {
      complain(options != nullptr && options->type ? options->type->position : said.position,
               fmt::format("\"{}\" is declared as {}, and the database takes it for {}", value->name,
                           name_of(value->type), words_of(schema).empty() ? "text" : words_of(schema)));
    }
    if (options != nullptr && !value->checked) check_possible_values(*options, *value, schema, dialect, complain);
    if (value->default_text && options != nullptr) {
      const std::string fault = fault_of(*value->default_text, *value, schema, dialect);
      if (!fault.empty() && options->environment) {
        complain(options->from->position, fmt::format("the environment's value of \"{}\" {}", value->name, fault));
      } else if (!fault.empty() && options->default_value) {
        complain(options->default_value->position, fmt::format("this default of \"{}\" {}", value->name, fault));
      }
    }
    if (value->from != api::From::query) continue;
    const bool is_own = value->key == "dry-run" || value->key == "max-deleted";
    if (is_own && method != nullptr && method->is_set()) {
      complain(said.position, fmt::format("a set takes the query parameter \"{}\" itself", value->key));
    }
    const auto [first, is_new] = in_query.emplace(value->key, &bound);
    const BoundValue& other = *first->second;
    if (is_new || other.source->name == value->name) continue;
    Position place = options != nullptr && options->from ? options->from->position : Position{};
    if (place.line == 0) {
      const Said others = said_of(endpoint, other.of_column ? method : nullptr, other.source->name, source);
      if (others.options != nullptr && others.options->from) place = others.options->from->position;
    }
    complain(place,
             fmt::format("\"{}\" and \"{}\" come from the same query parameter, \"{}\"", other.source->name,
                         value->name, value->key),
             "use one parameter in both places");
  }
}

bool check_columns(const api::EndpointOptions& endpoint, http::Method method, const api::MethodOptions& options,
                   const sql::Table& table, std::vector<Diagnostic>& errors) {
  const bool is_set = options.is_set();
  const bool writes_keys = is_set || method == http::Method::post || method == http::Method::put;
  std::vector<std::string_view> names;
  for (const sql::TableColumn& column : table.columns) names.push_back(column.name);
  bool good = true;
  for (const auto& column : options.columns) {
    if (column.value.ignored.value && !column.value.from) continue;
    const std::string& name = column.name.value;
    const sql::TableColumn* const there = table.find(name);
    std::string wrong;
    std::string hint;
    if (there == nullptr) {
      wrong = fmt::format("the table {} has no column \"{}\"", options.table.value, name);
      hint = did_you_mean(name, names);
    } else if (there->generated && (writes_keys || !column.value.key)) {
      wrong = fmt::format("the database makes the values of \"{}\" itself", name);
      hint =
          column.value.key && method != http::Method::post
              ? "this method writes its keys: name another (PostgreSQL: or declare it GENERATED BY DEFAULT AS IDENTITY)"
              : "leave it out: a body's value of it is ignored";
    } else {
      continue;
    }
    errors.push_back({column.name.position, fmt::format("endpoint {}: {}", endpoint.path.value, wrong), hint});
    good = false;
  }
  return good;
}

}  // namespace sluice::app::config
