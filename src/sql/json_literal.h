#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sql/rows.h"

// PostgreSQL's text forms of arrays and composite types, made of JSON: what to_json() makes of them, the other way
// round.
namespace sluice::sql {

// Whether it is an array or a composite type.
[[nodiscard]] bool has_literal(const Type& type);

// Of an array `[1,null,"a b"]` becomes `{"1",NULL,"a b"}`, and arrays inside are further dimensions; of a composite
// type
// `{"x":1,"y":null}` becomes `("1",)`, where a missing attribute is NULL. json and jsonb inside hold their text.
// Nothing: it is JSON of another kind, or has an attribute that the type does not have. Preconditions: the text is
// JSON, and has_literal(type).
[[nodiscard]] std::optional<std::string> json_literal(std::string_view json, const Type& type);

}  // namespace sluice::sql
