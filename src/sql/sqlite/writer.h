#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/sqlite/commit_observers.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"
#include "sql/sqlite/row_block.h"
#include "sql/transaction.h"

namespace sluice::sql {

// The only writer of a SQLite file, shared by all cores. SQLite runs one write transaction at a time, and each needs a
// sync of the disk. Therefore all requests that arrive during one commit share the next transaction. Each request has a
// savepoint, so one that fails is rolled back alone. A success is reported only after the commit. A transaction of
// several statements has the writer for itself until it ends; the writer waits at most hold_ms for each next statement.
class SqliteWriter {
 public:
  // `observers` belong to the file and are notified of this writer's commits.
  [[nodiscard]] static Result<std::unique_ptr<SqliteWriter>> open(
      const SqliteOptions& options, std::shared_ptr<CommitObservers> observers = std::make_shared<CommitObservers>());
  SqliteWriter(const SqliteWriter&) = delete;
  // Writes what is queued, then ends. No core may call execute() any more.
  ~SqliteWriter();

  // Parses and describes a statement that may write. Called at start, before any core calls execute().
  [[nodiscard]] Result<Statement> describe(std::string_view text, std::span<const Parameter> declared);

  // Called on any core, with that core's `reactor` and `mailbox`. `statement` outlives the call; the arguments are
  // copied at once. Destroying the task withdraws a request that has not started; one that has started may still be
  // committed.
  [[nodiscard]] core::Task<Result<Written>> execute(core::Reactor& reactor, core::Mailbox& mailbox,
                                                    const Statement& statement, std::span<const Argument> arguments,
                                                    const QueryOptions& options);

  // Also on any core: begins a transaction of several statements. Nothing is sent before the first of them.
  [[nodiscard]] std::unique_ptr<Transaction> begin(core::Reactor& reactor, core::Mailbox& mailbox,
                                                   const TransactionOptions& options);

  // Also on any core: runs work that writes through a connection of its own, while the writer is idle. It runs on the
  // writer's thread. Everything that `work` refers to must stay valid even if the task is destroyed meanwhile.
  using Work = std::function<Result<void>()>;
  [[nodiscard]] core::Task<Result<void>> run(core::Reactor& reactor, core::Mailbox& mailbox, Work work);

  // Commits of other processes are not reported. Callable on any core.
  [[nodiscard]] const std::shared_ptr<CommitObservers>& observers() const { return observers_; }

  [[nodiscard]] std::uint64_t commits() const { return commits_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t queued() const;

 private:
  struct Request;
  struct Queue;
  struct Session;
  class Awaiter;
  class Conversation;
  [[nodiscard]] bool works_alone(const Request& request) const;
  enum class Ended : std::uint8_t { done, failed, rolled_back };

  SqliteWriter(const SqliteOptions& options, std::unique_ptr<sqlite::Connection> connection,
               std::shared_ptr<CommitObservers> observers);

  static core::Task<Result<Written>> wait(SqliteWriter& writer, core::Reactor& reactor,
                                          std::unique_ptr<Request> request, std::span<const Column> columns,
                                          Instant deadline);
  static void deliver(Request& request);

  // The writer's thread.
  void serve();
  void write(std::span<Request* const> batch);
  void write_alone(std::span<Request* const> batch);
  void converse(Request& first);
  [[nodiscard]] bool take_step(Request& request);
  Ended perform(Request& request);
  Result<Written> perform_statement(Request& request);
  template <class Act>
  Result<Written> guarded(Act act);
  static void fail_all(std::span<Request* const> batch, const Error& error);

  [[nodiscard]] Result<void> commit();
  void note_changes(const sqlite::Prepared& prepared);

  const SqliteOptions options_;
  std::unique_ptr<sqlite::Connection> connection_;
  std::shared_ptr<Queue> queue_;
  const std::shared_ptr<CommitObservers> observers_;
  std::vector<std::string> changed_;  // used by the thread: tables that the open transaction has changed
  Request* current_ = nullptr;        // used by the thread: the request whose deadline applies to the running statement
  std::atomic<std::uint64_t> commits_{0};
  std::thread thread_;
};

}  // namespace sluice::sql
