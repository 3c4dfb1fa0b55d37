#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/sqlite/column_lists.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"
#include "sql/sqlite/row_block.h"

// Statements that scan or sort: they run in the blocking pool, a block at a time. Between two blocks nobody touches
// their connection; a pool thread has it while it fetches, the core at all other times.
namespace sluice::sql::sqlite {

inline constexpr std::size_t scan_block_bytes = 64 * 1024;
inline constexpr std::size_t scan_block_fields = 16 * 1024;

enum class Stop : std::uint8_t { no, cancelled, timed_out };

// A connection for one scan at a time. It and all that it owns are ordinary memory.
class ScanConnection {
 public:
  explicit ScanConnection(const SqliteOptions& options) : options_(options) {}

  // By the core, before the first fetch(). `whole`: the statement is one of a transaction, which begins with it unless
  // it has begun, and a fetch() takes all of its rows, up to so many bytes; 0: it stands alone, and is read in blocks.
  void begin(const Statement& statement, OwnedArguments arguments, std::size_t whole = 0);
  // By a pool thread: fills `block`; opens the file and starts the statement where that has not been done.
  void fetch();
  // By whoever has the connection: ends a statement that has not reached its end.
  void reset();
  [[nodiscard]] bool running() const { return running_ != nullptr; }
  // By the core, when no statement runs.
  void end_transaction();

  RowBlock block;              // of the last fetch()
  bool last = false;           // likewise: nothing follows
  std::optional<Error> error;  // likewise: nothing follows
  const std::vector<std::string>* names =
      nullptr;                       // of the statement's columns; from its first rows to the next begin()
  std::atomic<Stop> stop{Stop::no};  // set by the core at any time, and seen by the running statement soon
  std::uint64_t generation = 0;      // the core's: how often the connection has been given back
  bool reset_asked = false;          // the core's: a thread has been asked to end the statement

 private:
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> step_rows();
  [[nodiscard]] Error failed(int code) const;

  const SqliteOptions options_;
  std::unique_ptr<Connection> connection_;  // opened by the first fetch()
  Prepared* running_ = nullptr;
  std::uint32_t slot_ = 0;
  std::string text_;
  bool one_row_ = false;
  std::size_t whole_ = 0;
  bool in_transaction_ = false;
  OwnedArguments arguments_;
};

class ScanPool;

// The right to use a connection. It travels with the work to a pool thread and back, and gives the connection back
// when it is destroyed: so a scan whose cursor has gone keeps its connection until the thread has let go of it.
class Lease {
 public:
  Lease() = default;
  Lease(std::shared_ptr<ScanPool> pool, std::shared_ptr<ScanConnection> connection)
      : pool_(std::move(pool)), connection_(std::move(connection)) {}
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      release();
      pool_ = std::move(other.pool_);
      connection_ = std::move(other.connection_);
    }
    return *this;
  }
  ~Lease() { release(); }

  explicit operator bool() const { return connection_ != nullptr; }
  ScanConnection* operator->() const { return connection_.get(); }
  [[nodiscard]] const std::shared_ptr<ScanConnection>& connection() const { return connection_; }
  void release() noexcept;

 private:
  std::shared_ptr<ScanPool> pool_;
  std::shared_ptr<ScanConnection> connection_;
};

// One core's connections for scans: how many at a time, and who waits for one.
class ScanPool : public std::enable_shared_from_this<ScanPool> {
 public:
  ScanPool(const SqliteOptions& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads);
  ScanPool(const ScanPool&) = delete;

  // Runs a statement; the cursor has its first block already.
  [[nodiscard]] core::Task<Result<std::unique_ptr<Cursor>>> query(const Statement& statement, OwnedArguments arguments,
                                                                  QueryOptions options);
  // A transaction that reads, on a connection of its own.
  [[nodiscard]] std::unique_ptr<Transaction> begin(const TransactionOptions& options);
  // When the database goes: connections that come back later are closed.
  void close();

  [[nodiscard]] core::Reactor& reactor() { return reactor_; }
  // Lets a pool thread fetch the next block.
  [[nodiscard]] core::Task<Result<Lease>> fetch(Lease lease);
  // Of the database, on the core.
  [[nodiscard]] ColumnLists& column_lists() { return column_lists_; }
  [[nodiscard]] std::size_t idle() const { return idle_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  friend class Lease;
  class Reading;
  struct Waiter;
  struct Grant : core::TurnHook {
    explicit Grant(ScanPool& pool) : TurnHook(run), pool(pool) {}
    static void run(core::TurnHook& hook) noexcept { static_cast<Grant&>(hook).pool.grant(); }
    ScanPool& pool;
  };

  [[nodiscard]] Lease try_acquire();
  void release(std::shared_ptr<ScanConnection> connection) noexcept;
  core::Task<void> reset(Lease lease);
  void grant() noexcept;

  const SqliteOptions options_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  const std::thread::id home_ = std::this_thread::get_id();
  ColumnLists column_lists_;
  bool closed_ = false;
  std::size_t open_ = 0;  // idle or leased
  std::vector<std::shared_ptr<ScanConnection>> idle_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  std::size_t waiting_ = 0;
  Grant grant_{*this};
  core::TaskGroup resets_;
};

}  // namespace sluice::sql::sqlite
