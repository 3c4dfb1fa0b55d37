#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/task.h"
#include "sql/postgres/query.h"
#include "sql/postgres/settings.h"
#include "sql/transaction.h"

namespace sluice::sql::postgres {

// A transaction on a connection that it has for itself from its first statement on. BEGIN, the session's settings and
// the first statement go out together, and so do the last one and COMMIT: one statement takes one round trip. What the
// statements, or functions and triggers, have changed in the session (session_reset.h) is reset behind COMMIT, in the
// same flight: the connection's next user does not see it.
class Transaction final : public sql::Transaction {
 public:
  Transaction(Pool& pool, const TransactionOptions& options);
  // One that only reads, also on a standby; at the session's own isolation.
  [[nodiscard]] static Transaction reading(Pool& pool, const TransactionOptions& options) {
    return {pool, options, "BEGIN READ ONLY", false};
  }
  // On a connection that somebody else has, who outlives it and releases it. The session is reset at that release, as
  // its temporary tables last until then.
  Transaction(Pool& pool, Query& conversation, const TransactionOptions& options);

  [[nodiscard]] core::Task<Result<Written>> execute(const Statement& statement,
                                                    std::span<const Argument> arguments) override;
  [[nodiscard]] core::Task<Result<Written>> finish(const Statement& statement, std::span<const Argument> arguments,
                                                   std::size_t most_rows) override;
  [[nodiscard]] core::Task<Result<void>> commit() override;
  void renew(std::span<const Setting> settings, bool reads) override;

 private:
  // One flight: what stands before the next Sync. A statement of none is the bare COMMIT.
  struct Flight {
    const Statement* statement = nullptr;
    std::string parameters;
    std::uint16_t count = 0;
    bool commits = false;
  };
  class Rows;

  Transaction(Pool& pool, const TransactionOptions& options, std::string begin, bool resets);
  [[nodiscard]] static Flight flight(const Statement* statement, std::span<const Argument> arguments, bool commits);
  [[nodiscard]] core::Task<Result<Written>> run(Flight flight);
  [[nodiscard]] core::Task<Result<Written>> run_and_count(Flight flight, std::size_t most_rows);

  Pool& pool_;
  std::optional<Query> own_;
  Query& conversation_;
  std::string begin_;       // empty once it has been sent
  const Instant deadline_;  // `never`: each statement has the database's own statement timeout
  Settings settings_;
  bool renews_ = false;  // in front of the next statement
  bool reads_ = false;   // the next statement
  const bool must_do_;
  const std::size_t result_bytes_;
  const bool changes_session_;
  const bool resets_;  // behind COMMIT
};

}  // namespace sluice::sql::postgres
