#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/parameters.h"
#include "sql/postgres/describe.h"
#include "sql/postgres/query.h"

// The types of a statement's parameters. The server gives a parameter the type that its first place needs, and refuses
// `$1 IS NULL OR name = $1`, whose first place needs none. Here the order does not matter, and where no place needs a
// type, the configuration's counts.
namespace sluice::sql::postgres {

struct TypedDescription {
  std::vector<std::uint32_t> types;  // as Statement::parameter_types
  Description description;
};

// `parameters` are those of `parsed`, in its order. An error's position is a character of the statement as it was
// written, `source`.
[[nodiscard]] core::Task<Result<TypedDescription>> describe_typed(Query& conversation, std::string_view source,
                                                                  const ParsedSql& parsed,
                                                                  std::span<const Parameter> parameters);

}  // namespace sluice::sql::postgres
