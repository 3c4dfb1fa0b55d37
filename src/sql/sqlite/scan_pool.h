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

// Statements that scan or sort run in the blocking pool, one block at a time. While a block is being fetched, only the
// pool thread uses their connection; at all other times, only the core's own thread.
namespace sluice::sql::sqlite {

inline constexpr std::size_t scan_block_bytes = 64 * 1024;
inline constexpr std::size_t scan_block_fields = 16 * 1024;

enum class Stop : std::uint8_t { no, cancelled, timed_out };

// A connection for one scan at a time. It and everything that it owns is allocated from ordinary memory.
class ScanConnection {
 public:
  explicit ScanConnection(const SqliteOptions& options) : options_(options) {}

  // Called by the core before the first fetch(). If `whole` is 0, the statement stands alone and is read in blocks.
  // Otherwise it belongs to a transaction, which begins here unless it has begun before, and one fetch() reads all
  // rows, up to `whole` bytes.
  void begin(const Statement& statement, OwnedArguments arguments, std::size_t whole = 0);
  // Called by a pool thread: fills `block`. Opens the file and starts the statement first, if necessary.
  void fetch();
  // Called by the thread that owns the connection: ends a statement that is still running.
  void reset();
  [[nodiscard]] bool running() const { return running_ != nullptr; }
  // Called by the core when no statement runs.
  void end_transaction();

  RowBlock block;              // result of the last fetch()
  bool last = false;           // result of the last fetch(): no rows follow
  std::optional<Error> error;  // result of the last fetch(): no rows follow
  const std::vector<std::string>* names =
      nullptr;                       // the statement's column names; valid from its first rows to the next begin()
  std::atomic<Stop> stop{Stop::no};  // set by the core at any time; the running statement soon sees it
  std::uint64_t generation = 0;      // used by the core: how often the connection has been returned
  bool reset_asked = false;          // used by the core: a thread has been asked to end the statement

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

// The right to use a connection. It moves with the work to a pool thread and back, and its destructor returns the
// connection. So a scan whose cursor was destroyed keeps its connection until the thread has finished with it.
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

// One core's connections for scans, their limit, and the queue for them.
class ScanPool : public std::enable_shared_from_this<ScanPool> {
 public:
  ScanPool(const SqliteOptions& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads);
  ScanPool(const ScanPool&) = delete;

  // Runs a statement. The returned cursor already has its first block.
  [[nodiscard]] core::Task<Result<std::unique_ptr<Cursor>>> query(const Statement& statement, OwnedArguments arguments,
                                                                  QueryOptions options);
  // Begins a transaction that only reads, on a connection of its own.
  [[nodiscard]] std::unique_ptr<Transaction> begin(const TransactionOptions& options);
  // As Database::resize().
  void resize(std::uint32_t connections, Duration wait);
  // Called when the database is destroyed: connections that are returned later are closed.
  void close();

  [[nodiscard]] core::Reactor& reactor() { return reactor_; }
  [[nodiscard]] core::Task<Result<Lease>> fetch(Lease lease);
  // Used by the database, on the core.
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

  SqliteOptions options_;
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
