#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/openapi/json.h"
#include "sql/database.h"
#include "sql/set/table.h"

// JSON Schemas (2020-12, as OpenAPI 3.1 takes them) of what databases hold.
namespace sluice::api::openapi {

// What is known of a value. Of one that may be anything, `type` is empty.
struct Schema {
  std::string type = {};      // "integer"
  std::string format = {};    // "uuid"
  Json::Object members = {};  // what else it says: "minimum"
  std::string or_else = {};   // another type that values may have: "string" where a number may be NaN

  enum class Null : std::uint8_t { never, possible };
  [[nodiscard]] Json::Object json(Null null) const;
};

// A value of an answer.
[[nodiscard]] Schema schema_of(const sql::Column& column);
// A value that the configuration says the type of.
[[nodiscard]] Schema schema_of(sql::ParameterType type);
// A value that a request gives for what PostgreSQL says the OID of.
[[nodiscard]] Schema schema_of_oid(std::uint32_t oid);
// Of a parameter that SQLite compares with a column of this kind.
[[nodiscard]] Schema schema_of(sql::ColumnKind kind);
// Likewise, for a column's type as the database writes it: "character varying(20)", "INTEGER".
[[nodiscard]] Schema schema_of_type_name(std::string_view name, sql::Dialect dialect);

// A default of the configuration as a value of the schema; nothing: it is none.
[[nodiscard]] std::optional<Json> default_json(const Schema& schema, std::string_view text);

}  // namespace sluice::api::openapi
