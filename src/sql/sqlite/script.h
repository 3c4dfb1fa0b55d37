#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sql/database.h"

namespace sluice::sql::sqlite {

// sql::run_script() for SQLite. `stop` is called every few thousand steps of SQLite's VM; true ends the script.
[[nodiscard]] Result<void> run_script(const std::string& path, std::string_view script,
                                      const std::function<bool()>& stop);

}  // namespace sluice::sql::sqlite
