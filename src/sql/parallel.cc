#include "sql/parallel.h"

#include "sql/database.h"

namespace sluice::sql {

core::Task<Result<Statement>> Database::prepare_parallel(std::string_view, std::span<const Parameter>,
                                                         const ParallelReading&) {
  co_return std::unexpected(Error{Failure::statement, {}, "only PostgreSQL is read on several connections", 0});
}

}  // namespace sluice::sql
