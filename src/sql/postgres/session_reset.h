#pragma once

#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/query.h"

// What a statement, or a function that it calls, has changed in its session ends before somebody else's statement runs
// there (docs/decisions/0009).
namespace sluice::sql::postgres {

// Resets the session: user and role, parameters, LISTEN, temporary tables, advisory locks. None of the commands returns
// rows.
inline constexpr std::uint8_t reset_commands = 6;
void write_session_reset(Buffer& out);
// Those of them that take user, role and parameters back, within a transaction too.
inline constexpr std::uint8_t renewal_commands = 3;
void write_renewal(Buffer& out);

// Whether a statement can change its session, by the functions that it names and those of the views, policies and
// domains that it names. What is in doubt counts as yes.
[[nodiscard]] core::Task<Result<bool>> may_change_session(Query& conversation, std::string_view sql);

}  // namespace sluice::sql::postgres
