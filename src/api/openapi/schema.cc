#include "api/openapi/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/ascii.h"
#include "sql/parameters.h"

namespace sluice::api::openapi {
namespace {

using sql::Form;

template <class Integer>
Schema whole(std::string_view format) {
  using Limits = std::numeric_limits<Integer>;
  return {.type = "integer",
          .format = std::string(format),
          .members = {{"minimum", Limits::min()}, {"maximum", Limits::max()}}};
}
Schema int2() { return whole<std::int16_t>("int16"); }
Schema int4() { return whole<std::int32_t>("int32"); }
Schema int8() { return whole<std::int64_t>("int64"); }
Schema boolean() { return {.type = "boolean"}; }
Schema string(std::string_view format = {}) { return {.type = "string", .format = std::string(format)}; }
Schema anything() { return {}; }
Schema finite() { return {.type = "number"}; }
// JSON has no NaN, so NaN is a string.
Schema number() { return {.type = "number", .members = {{"pattern", "^(NaN|-?Infinity)$"}}, .or_else = "string"}; }

// The schema of a type whose OID says more than its form. The OIDs are from PostgreSQL's pg_type.dat.
struct Known {
  std::uint32_t oid;
  Schema (*schema)();
};
constexpr std::array known{
    Known{16, boolean},
    Known{20, int8},
    Known{21, int2},
    Known{23, int4},
    Known{114, anything},
    Known{3802, anything},
    Known{1700, finite},  // NaN has no place in the type: clients would have to expect a string in every number
    Known{1082, [] { return string("date"); }},
    Known{1184, [] { return string("date-time"); }},
    Known{2950, [] { return string("uuid"); }},
};

// Array types whose elements' OIDs say more than their form: the OIDs of the array and of its elements.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> elements{
    {{1005, 21}, {1007, 23}, {1016, 20}, {1182, 1082}, {1185, 1184}, {1231, 1700}, {2951, 2950}}};

Schema of_type(const sql::Type& type, std::uint32_t oid) {
  const auto found = std::ranges::find(known, oid, &Known::oid);
  if (found != known.end()) return found->schema();
  switch (type.form) {
    case Form::number:
      return number();
    case Form::boolean:
      return boolean();
    case Form::timestamp_tz:
      return string("date-time");
    case Form::json:
    case Form::dynamic:
      return anything();
    case Form::array: {
      const auto element = std::ranges::find(elements, oid, &decltype(elements)::value_type::first);
      return array_of(of_type(*type.element, element == elements.end() ? 0 : element->second));
    }
    case Form::composite: {
      Json::Object attributes;
      for (const auto& attribute : type.attributes) {
        attributes.emplace_back(attribute.name, of_type(*attribute.type, 0).json(Schema::Null::possible));
      }
      return {.type = "object", .members = {{"properties", std::move(attributes)}}};
    }
    case Form::text:
    case Form::timestamp:
    case Form::bytes:
      break;
  }
  return string();
}

// The n of "character varying(n)" or "character(n)".
std::optional<std::int64_t> length_of(std::string_view type_name) {
  for (const std::string_view type : {"character varying(", "character("}) {
    if (!type_name.starts_with(type) || !type_name.ends_with(')')) continue;
    std::int64_t length = 0;
    const char* const end = type_name.data() + type_name.size() - 1;
    const auto [stopped, error] = std::from_chars(type_name.data() + type.size(), end, length);
    if (error == std::errc() && stopped == end) return length;
  }
  return std::nullopt;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

// sql::fits() also accepts numbers that are not JSON: "+1", "007", ".5".
bool is_json_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || (digits > 1 && text[0] == '0')) return false;
  text.remove_prefix(digits);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto decimals = std::min(text.find_first_not_of("0123456789"), text.size());
    if (decimals == 0) return false;
    text.remove_prefix(decimals);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (text.empty()) return false;
    text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  }
  return text.empty();
}

}  // namespace

Json::Object Schema::json(Null null) const {
  Json::Object object;
  Json::Array types = {type};
  if (!or_else.empty()) types.emplace_back(or_else);
  if (null == Null::possible) types.emplace_back("null");
  if (!type.empty()) object.emplace_back("type", types.size() == 1 ? types[0] : std::move(types));
  if (!format.empty()) object.emplace_back("format", format);
  if (!values.empty()) {
    Json::Array all = values;
    if (null == Null::possible) all.emplace_back(nullptr);
    object.emplace_back("enum", std::move(all));
  }
  object.insert(object.end(), members.begin(), members.end());
  return object;
}

Schema schema_of(const sql::Column& column) {
  if (column.type->form != Form::dynamic) return of_type(*column.type, column.type_id);
  // Each SQLite value has its own type, but columns mostly contain values of their declared type.
  if (column.declared_type.empty()) return anything();
  const Schema schema = schema_of_type_name(column.declared_type, sql::Dialect::sqlite);
  const bool is_decimal = is_one_of(to_lower(column.declared_type).substr(0, 7), {"numeric", "decimal"});
  return schema.type == "number" && !is_decimal ? number() : schema;
}

Schema schema_of(sql::ParameterType type, const AllowedValues* allowed) {
  if (sql::is_list(type)) {
    return {.type = "array",
            .members = {{"items", schema_of(sql::element_of(type), allowed).json(Schema::Null::never)}}};
  }
  switch (type) {
    case sql::ParameterType::integer:
      return limited(int8(), allowed);
    case sql::ParameterType::real:
      return limited(finite(), allowed);
    case sql::ParameterType::boolean:
      return limited(boolean(), allowed);
    default:
      return limited(string(), allowed);
  }
}

Schema schema_of(const PasswordRules& rules) {
  return {.type = "string",
          .format = "password",
          .members = {{"writeOnly", true}, {"minLength", rules.min_length}, {"maxLength", PasswordRules::most_bytes}}};
}

Schema limited(Schema schema, const AllowedValues* allowed) {
  if (allowed == nullptr) return schema;
  const bool has_bounds = allowed->values.empty();
  const bool is_number = schema.type == "integer" || schema.type == "number";
  if (schema.type.empty() || (has_bounds && !is_number)) schema = {.type = has_bounds ? "number" : "string"};
  schema.or_else.clear();  // NaN is never allowed
  std::erase_if(schema.members, [&](const Json::Member& one) {
    return !has_bounds || one.first == "pattern" || (one.first == "minimum" && allowed->min) ||
           (one.first == "maximum" && allowed->max);
  });
  if (allowed->min) schema.members.emplace_back("minimum", Json::Raw{plain(*allowed->min)});
  if (allowed->max) schema.members.emplace_back("maximum", Json::Raw{plain(*allowed->max)});
  schema.values.clear();
  for (const std::string& text : allowed->values) {
    const auto number = is_number ? parse_decimal(text) : std::nullopt;
    auto value = number ? Json(Json::Raw{plain(*number)}) : default_json(schema, text);
    if (value) schema.values.push_back(std::move(*value));
  }
  return schema;
}

Schema schema_of(sql::ColumnKind kind) {
  switch (kind) {
    case sql::ColumnKind::integer:
      return schema_of(sql::ParameterType::integer);
    case sql::ColumnKind::real:
    case sql::ColumnKind::numeric:
      return schema_of(sql::ParameterType::real);
    case sql::ColumnKind::boolean:
      return schema_of(sql::ParameterType::boolean);
    default:
      return anything();
  }
}

Schema schema_of_oid(std::uint32_t oid) {
  const auto found = std::ranges::find(known, oid, &Known::oid);
  if (found != known.end()) return found->schema();
  switch (oid) {
    case 700:  // float4
    case 701:  // float8
      return number();
    case 18:    // "char"
    case 19:    // name
    case 25:    // text
    case 1042:  // bpchar
    case 1043:  // varchar
      return string();
    default:  // only the server knows the base type of a domain
      return anything();
  }
}

Schema schema_of_type_name(std::string_view name, sql::Dialect dialect) {
  const bool is_sqlite = dialect == sql::Dialect::sqlite;
  std::string type = to_lower(name);
  if (type.ends_with("[]")) return anything();
  if (const auto open = type.find('('); open != type.npos) {  // "timestamp(3) with time zone"
    const auto close = type.find(')', open);
    type.erase(open, close == type.npos ? type.npos : close + 1 - open);
  }
  while (type.ends_with(' ')) type.pop_back();
  if (is_one_of(type, {"smallint", "int2"})) return int2();
  if (is_one_of(type, {"integer", "int", "int4"})) return is_sqlite && type != "int4" ? int8() : int4();
  if (is_one_of(type, {"bigint", "int8"})) return int8();
  if (is_one_of(type, {"boolean", "bool"})) return boolean();
  if (is_one_of(type, {"numeric", "decimal"})) return finite();
  if (is_one_of(type, {"real", "double", "double precision", "float", "float4", "float8"})) {
    return is_sqlite ? finite() : number();
  }
  if (is_one_of(type, {"text", "varchar", "character varying", "character", "char", "clob", "name"})) {
    return is_sqlite ? string() : with_length(string(), name);
  }
  if (type == "uuid") return string("uuid");
  if (type == "date") return string("date");
  if (is_one_of(type, {"timestamp with time zone", "timestamptz"})) return string("date-time");
  return anything();
}

Schema with_length(Schema of_answer, std::string_view type_name) {
  const auto length = length_of(type_name);
  if (length && of_answer.type == "string") of_answer.members.emplace_back("maxLength", *length);
  return of_answer;
}

Schema schema_of(const sql::EnumType& type) {
  return {.type = "string", .values = Json::Array(type.labels.begin(), type.labels.end())};
}

Schema array_of(const Schema& item) {
  Json::Object items;
  // PostgreSQL does not restrict the dimensions of an array.
  if (!item.type.empty()) {
    items = {{"anyOf", Json::Array{item.json(Schema::Null::possible), {{"type", "array"}}}}};
  }
  return {.type = "array", .members = {{"items", std::move(items)}}};
}

std::optional<Json> default_json(const Schema& schema, std::string_view text) {
  if (schema.type == "integer" || schema.type == "number") {
    return is_json_number(text) ? std::optional<Json>(Json::Raw{std::string(text)}) : std::nullopt;
  }
  if (schema.type == "boolean") {
    if (!sql::fits(sql::ParameterType::boolean, text)) return std::nullopt;
    return text.starts_with('t') || text == "1";
  }
  return text;
}

}  // namespace sluice::api::openapi
