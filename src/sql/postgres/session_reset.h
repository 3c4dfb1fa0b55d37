#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/time.h"
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

// The words of statements that may_change_session() has found harmless a short while ago. It judges word for word, so a
// statement of these words alone is harmless too. Without this, the lists of fifty tables take PostgreSQL half a
// minute.
class HarmlessWords {
 public:
  void add(std::string_view sql, Instant now);
  // False if in doubt, as for names that only quotes make possible.
  [[nodiscard]] bool has_all(std::string_view sql, Instant now) const;

 private:
  std::set<std::string, std::less<>> words_;
  Instant since_{};
};

}  // namespace sluice::sql::postgres
