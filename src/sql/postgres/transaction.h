#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/task.h"
#include "sql/postgres/query.h"
#include "sql/postgres/settings.h"
#include "sql/transaction.h"

namespace sluice::sql::postgres {

// A transaction of one statement whose result is not needed for the decision to commit (Statement::may_fly, and not
// `must_do`) is one flight: settings, statement and Sync, on a connection with other such flights. It is committed when
// ReadyForQuery has arrived, not at CommandComplete, after which a deferred constraint may still fail.
//
// Others have a connection of their own from their first statement on. BEGIN, the settings and the first statement are
// sent together, and so are the last statement and COMMIT.
//
// Session changes that statements, functions or triggers have made (session_reset.h) are reset after the commit, before
// the next request, so that the connection's next user does not see them.
class Transaction final : public sql::Transaction {
 public:
  Transaction(Pool& pool, const TransactionOptions& options);
  // A read-only transaction, which also works on a standby; it has the session's default isolation.
  [[nodiscard]] static Transaction reading(Pool& pool, const TransactionOptions& options) {
    return {pool, options, "BEGIN READ ONLY", false};
  }
  // Uses the caller's connection, which the caller releases after the transaction. The session is reset at that
  // release, because its temporary tables must last until then.
  Transaction(Pool& pool, Query& conversation, const TransactionOptions& options);

  [[nodiscard]] core::Task<Result<Written>> execute(const Statement& statement,
                                                    std::span<const Argument> arguments) override;
  [[nodiscard]] core::Task<Result<Written>> finish(const Statement& statement, std::span<const Argument> arguments,
                                                   std::size_t most_rows) override;
  [[nodiscard]] core::Task<Result<void>> commit() override;
  void renew(std::span<const Setting> settings, bool reads) override;

 private:
  // The messages up to the next Sync. Without a statement it is only COMMIT.
  struct Flight {
    const Statement* statement = nullptr;
    std::string parameters;
    std::uint16_t count = 0;
    bool commits = false;
  };
  class Rows;
  struct Answer;

  Transaction(Pool& pool, const TransactionOptions& options, std::string begin, bool writes);
  [[nodiscard]] static Flight flight(const Statement* statement, std::span<const Argument> arguments, bool commits);
  [[nodiscard]] core::Task<Result<Written>> run(Flight flight);
  [[nodiscard]] core::Task<Result<Written>> run_last(Flight flight, std::size_t most_rows);
  [[nodiscard]] bool may_fly(const Statement& statement) const;
  [[nodiscard]] Result<Written> landed(std::size_t most_rows);
  [[nodiscard]] Error unavailable(Error error);
  void write(const Flight& flight, Answer& answer);
  [[nodiscard]] bool take(const Message& message, Answer& answer);
  void refuse(const ServerError& error, Answer& answer);
  [[nodiscard]] static Result<Written> finish(Answer& answer);

  Pool& pool_;
  std::optional<Query> own_;
  Query& conversation_;
  std::string begin_;       // empty once it has been sent
  const Instant deadline_;  // `never`: each statement has the database's own statement timeout
  Settings settings_;
  const bool writes_;
  bool renews_ = false;  // before the next statement
  bool reads_ = false;   // applies to the next statement
  const bool must_do_;
  const std::size_t result_bytes_;
  // How the session is reset after it.
  enum class Reset : std::uint8_t {
    never,       // the pooler resets it, or the transaction only reads
    at_release,  // by the connection
    in_flight,   // after COMMIT
  };
  const Reset reset_;
};

}  // namespace sluice::sql::postgres
