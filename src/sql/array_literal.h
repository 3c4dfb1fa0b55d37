#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// PostgreSQL's text form of arrays, made of JSON: what to_json() makes of an array, the other way round.
namespace sluice::sql {

struct ArrayForm {
  char delimiter = ',';  // between the elements
  bool of_json = false;  // they are json or jsonb
};

// Of an array type that every PostgreSQL has under the same OID; nothing for any other type.
[[nodiscard]] std::optional<ArrayForm> array_form(std::uint32_t oid);

// `[1,null,"a b"]` becomes `{1,NULL,"a b"}`, arrays inside are further dimensions; of JSON they are elements. Nothing:
// it is no array. Precondition: the text is JSON.
[[nodiscard]] std::optional<std::string> array_literal(std::string_view json, ArrayForm form);

}  // namespace sluice::sql
