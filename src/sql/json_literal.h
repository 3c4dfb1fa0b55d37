#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sql/rows.h"

// Converts JSON to PostgreSQL's text form of arrays and composite types: the inverse of to_json().
namespace sluice::sql {

// Whether `type` is an array or a composite type.
[[nodiscard]] bool has_literal(const Type& type);

// An array `[1,null,"a b"]` becomes `{"1",NULL,"a b"}`; nested arrays become further dimensions. An object
// `{"x":1,"y":null}` becomes a composite value `("1",)`; a missing attribute is NULL. Elements of type json and jsonb
// keep their JSON text. Returns nothing if the JSON is neither an array nor an object as the type requires, or if it
// has an attribute that the type does not have. Preconditions: `json` is valid JSON, and has_literal(type).
[[nodiscard]] std::optional<std::string> json_literal(std::string_view json, const Type& type);

}  // namespace sluice::sql
