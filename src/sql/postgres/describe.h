#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/query.h"
#include "sql/postgres/types.h"

// Exchanges with the server, on a connection that a conversation has obtained (Query::advance()).
namespace sluice::sql::postgres {

// The server's description of a statement.
struct Description {
  std::vector<std::uint32_t> parameters;  // OIDs
  std::vector<Column> columns;            // types are not set; see resolve_types()
};

// `types` are the parameters' OIDs for Parse. An error's position is a character of `sql`.
[[nodiscard]] core::Task<Result<Description>> describe(Query& conversation, std::string_view sql,
                                                       std::span<const std::uint32_t> types);

// Returns the type of an OID. Asks the catalog if `types` does not know it yet.
[[nodiscard]] core::Task<Result<TypePtr>> resolve_type(Query& conversation, TypeCatalog& types, std::uint32_t oid);
[[nodiscard]] core::Task<Result<void>> resolve_types(Query& conversation, TypeCatalog& types,
                                                     std::vector<Column>& columns);

class Pool;

// Asks the catalog for the types of the columns, on a connection of the pool, and tells its ColumnLists.
[[nodiscard]] core::Task<void> look_up_columns(Pool& pool, StatementId id, std::vector<Column> columns,
                                               bool types_changed);

}  // namespace sluice::sql::postgres
