#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/allowed_values.h"
#include "api/openapi/json.h"
#include "api/password.h"
#include "sql/database.h"
#include "sql/enums.h"
#include "sql/set/table.h"

// JSON Schemas (2020-12, as in OpenAPI 3.1) of database values.
namespace sluice::api::openapi {

// The known properties of a value. `type` is empty if the value may have any type.
struct Schema {
  std::string type = {};      // "integer"
  std::string format = {};    // "uuid"
  Json::Object members = {};  // further keywords: "minimum"
  std::string or_else = {};   // another type that values may have: "string" if a number may be NaN
  Json::Array values = {};    // all possible values; empty: any

  enum class Null : std::uint8_t { never, possible };
  [[nodiscard]] Json::Object json(Null null) const;
};

// The schema of a value in an answer.
[[nodiscard]] Schema schema_of(const sql::Column& column);
// The schema of a value whose type the configuration declares. `allowed`: the values, or elements of a list, that are
// possible; null: all.
[[nodiscard]] Schema schema_of(sql::ParameterType type, const AllowedValues* allowed = nullptr);
// The schema of those values that are also allowed; null: all.
[[nodiscard]] Schema limited(Schema schema, const AllowedValues* allowed);
// The schema of a password that satisfies the rules.
[[nodiscard]] Schema schema_of(const PasswordRules& rules);
// The schema of a request's value for the PostgreSQL type with this OID.
[[nodiscard]] Schema schema_of_oid(std::uint32_t oid);
// The schema of a parameter that SQLite compares with a column of this kind.
[[nodiscard]] Schema schema_of(sql::ColumnKind kind);
// The schema of a column's type as the database writes it: "character varying(20)", "INTEGER".
[[nodiscard]] Schema schema_of_type_name(std::string_view name, sql::Dialect dialect);

// The schema of an answer's value from a table's column of this PostgreSQL type, which may say more than `of_answer`.
[[nodiscard]] Schema with_length(Schema of_answer, std::string_view type_name);
// The schema of a value of the enum.
[[nodiscard]] Schema schema_of(const sql::EnumType& type);
// The schema of an array of values, as an answer has it.
[[nodiscard]] Schema array_of(const Schema& item);

// A configured text, such as a default, as a value of the schema. Returns nullopt if the text is not such a value.
[[nodiscard]] std::optional<Json> default_json(const Schema& schema, std::string_view text);

}  // namespace sluice::api::openapi
