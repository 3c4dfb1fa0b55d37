#pragma once

#include <string_view>

namespace sluice::sql::postgres {

// Statement::may_fly, by the statement's text. A procedure (CALL) or a DO block may commit, which would end the
// settings of the transaction before the rest of it, so only statements that cannot are named. Of the statements that
// return rows, only an INSERT of one row of VALUES is known to return one at most.
[[nodiscard]] bool may_fly(std::string_view sql, bool has_columns);

}  // namespace sluice::sql::postgres
