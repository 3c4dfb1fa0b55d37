#pragma once

#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/query.h"

// Undoes what a statement, or a function that it calls, has changed in its session, before a statement of another
// request runs in the same session (docs/decisions/0009).
namespace sluice::sql::postgres {

// Resets the session: user and role, parameters, LISTEN, temporary tables, advisory locks. The commands return no rows.
inline constexpr std::uint8_t reset_commands = 6;
void write_session_reset(Buffer& out);
// The subset of these commands that resets user, role and parameters. It also works within a transaction.
inline constexpr std::uint8_t renewal_commands = 3;
void write_renewal(Buffer& out);

// Whether a statement can change its session through functions: those that it names, and those of the views, policies
// and domains that it names. If in doubt, the result is true.
[[nodiscard]] core::Task<Result<bool>> may_change_session(Query& conversation, std::string_view sql);

}  // namespace sluice::sql::postgres
