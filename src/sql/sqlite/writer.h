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
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"
#include "sql/sqlite/row_block.h"
#include "sql/transaction.h"

namespace sluice::sql {

// Who is told which tables the writer's commits change. On the writer's thread, which waits meanwhile.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;
  virtual void committed(std::span<const std::string> tables) noexcept = 0;
};

// The one writer of a SQLite file, shared by all cores. SQLite takes one writing transaction at a time and pays for
// each with a sync of the disk; so what has gathered while the last one was written goes into the next as a whole, each
// request in a savepoint of its own: one that fails is undone alone. Nobody hears of a success before its commit.
// A transaction of several statements has the writer for itself until it ends, and at most hold_ms for each of its
// pauses.
class SqliteWriter {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SqliteWriter>> open(const SqliteOptions& options);
  SqliteWriter(const SqliteWriter&) = delete;
  // Writes what is queued, then ends. Nobody may call execute() any more.
  ~SqliteWriter();

  // At start, before execute() is called by any core: parses and describes a statement that may write.
  [[nodiscard]] Result<Statement> describe(std::string_view text, std::span<const Parameter> declared);

  // From any core: `reactor` and `mailbox` are its own. `statement` outlives the call; the arguments are copied at
  // once. Destroying the task withdraws a request that has not begun; one that has may still be committed.
  [[nodiscard]] core::Task<Result<Written>> execute(core::Reactor& reactor, core::Mailbox& mailbox,
                                                    const Statement& statement, std::span<const Argument> arguments,
                                                    const QueryOptions& options);

  // From any core, likewise: statements that are decided on one after the other. Nothing is sent before the first.
  [[nodiscard]] std::unique_ptr<Transaction> begin(core::Reactor& reactor, core::Mailbox& mailbox,
                                                   const TransactionOptions& options);

  // From any core, likewise: work that writes by a connection of its own, while the writer keeps out of the way. It
  // runs on the writer's thread; what it refers to must last even if the task is destroyed meanwhile.
  using Work = std::function<Result<void>()>;
  [[nodiscard]] core::Task<Result<void>> run(core::Reactor& reactor, core::Mailbox& mailbox, Work work);

  // From any core, in place of who was told before. Commits of other processes, and of nobody's transaction, are not
  // told of.
  void observe(std::shared_ptr<CommitObserver> observer) {
    const std::lock_guard lock(observing_);
    observer_ = std::move(observer);
  }
  // By work, on the writer's thread: it has committed changes of these tables.
  void committed(std::span<const std::string> tables) const {
    const std::lock_guard lock(observing_);
    if (observer_ && !tables.empty()) observer_->committed(tables);
  }

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

  SqliteWriter(const SqliteOptions& options, std::unique_ptr<sqlite::Connection> connection);

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

  [[nodiscard]] bool is_observed() const {
    const std::lock_guard lock(observing_);
    return observer_ != nullptr;
  }
  [[nodiscard]] Result<void> commit();
  void note_changes(const sqlite::Prepared& prepared);

  const SqliteOptions options_;
  std::unique_ptr<sqlite::Connection> connection_;
  std::shared_ptr<Queue> queue_;
  mutable std::mutex observing_;              // guards observer_
  std::shared_ptr<CommitObserver> observer_;  // null: nobody wants to know
  std::vector<std::string> changed_;          // the thread's: tables that the open transaction has changed
  Request* current_ = nullptr;                // the thread's: whose deadline the running statement obeys
  std::atomic<std::uint64_t> commits_{0};
  std::thread thread_;
};

}  // namespace sluice::sql
