#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/query.h"
#include "sql/postgres/types.h"

// Exchanges with the server on a connection that a conversation has got (Query::advance()).
namespace sluice::sql::postgres {

// What the server says of a statement.
struct Description {
  std::vector<std::uint32_t> parameters;  // OIDs
  std::vector<Column> columns;            // without their types: resolve_types()
};

// `types` are parameters' OIDs, as Parse takes them. An error's position is a character of `sql`.
[[nodiscard]] core::Task<Result<Description>> describe(Query& conversation, std::string_view sql,
                                                       std::span<const std::uint32_t> types);

// The type of an OID; asks the catalog for what `types` does not know yet.
[[nodiscard]] core::Task<Result<TypePtr>> resolve_type(Query& conversation, TypeCatalog& types, std::uint32_t oid);
// Sets each column's type.
[[nodiscard]] core::Task<Result<void>> resolve_types(Query& conversation, TypeCatalog& types,
                                                     std::vector<Column>& columns);

}  // namespace sluice::sql::postgres
