#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/loop.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::app {

// `did you mean "films"?`, of a table or a column that the database did not find when it prepared the statement (or
// looked for a table, whose name is then the statement); nothing, where the error is another one or no name is near.
[[nodiscard]] std::string near_name(Loop& loop, sql::Database& database, sql::Dialect dialect,
                                    std::string_view statement, const sql::Error& error);

}  // namespace sluice::app
