#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/parameters.h"
#include "sql/postgres/describe.h"
#include "sql/postgres/query.h"

// Infers the types of a statement's parameters. The server gives a parameter the type that its first use requires, and
// refuses `$1 IS NULL OR name = $1`, because the first use requires none. Here the order of the uses does not matter,
// and if no use requires a type, the type declared in the configuration applies.
namespace sluice::sql::postgres {

struct TypedDescription {
  std::vector<std::uint32_t> types;  // for Statement::parameter_types
  Description description;
};

// `parameters` are in the order of `parsed`. An error's position is a character of `source`, the original statement.
[[nodiscard]] core::Task<Result<TypedDescription>> describe_typed(Query& conversation, std::string_view source,
                                                                  const ParsedSql& parsed,
                                                                  std::span<const Parameter> parameters);

}  // namespace sluice::sql::postgres
