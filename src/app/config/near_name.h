#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/prepare/loop.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::app {

// A hint such as `did you mean "films"?` for a table or column that the database did not find when it prepared the
// statement. If the database looked up a table, `statement` is the table's name. Returns an empty string for other
// errors and if no name is similar.
[[nodiscard]] std::string near_name(Loop& loop, sql::Database& database, sql::Dialect dialect,
                                    std::string_view statement, const sql::Error& error);

}  // namespace sluice::app
