#include "sql/sqlite/scan_pool.h"

#include <algorithm>

#include <sqlite3.h>

#include "base/assert.h"

namespace sluice::sql::sqlite {
namespace {

constexpr const char* row_too_long = "a row is longer than row_limit";

std::unexpected<Error> refuse(Failure failure, const char* message) {
  return std::unexpected(Error{failure, {}, message});
}

Failure failure_of(Stop stop) { return stop == Stop::timed_out ? Failure::timed_out : Failure::unavailable; }

// The work of a pool thread. A named type with the lease as its only member, so that it can be moved.
struct FetchWork {
  Lease lease;
  Lease operator()() {
    lease->fetch();
    return std::move(lease);
  }
};
struct ResetWork {
  Lease lease;
  Lease operator()() {
    lease->reset();
    return std::move(lease);
  }
};

// Stops a fetch whose caller was destroyed.
class StopGuard {
 public:
  explicit StopGuard(const Lease& lease) : connection_(lease.connection()), generation_(connection_->generation) {}
  StopGuard(const StopGuard&) = delete;
  ~StopGuard() {
    if (!done_ && connection_->generation == generation_)
      connection_->stop.store(Stop::cancelled, std::memory_order_relaxed);
  }
  void done() { done_ = true; }

 private:
  std::shared_ptr<ScanConnection> connection_;
  std::uint64_t generation_;
  bool done_ = false;
};

// `patience` limits SQLite's work for each block; waiting for the client does not count.
class ScanCursor final : public Cursor {
 public:
  ScanCursor(std::shared_ptr<ScanPool> pool, const Statement& statement, Lease lease, Duration patience)
      : pool_(std::move(pool)),
        statement_(statement),
        lease_(std::move(lease)),
        connection_(lease_.connection()),
        generation_(connection_->generation),
        patience_(patience),
        deadline_(*this) {}

  core::Async<Result<Block>> next() override {
    if (fetched_) {
      fetched_ = false;
      return Result<Block>(view());
    }
    return next_block();
  }

  core::Task<Result<void>> fetch() {
    SLUICE_ASSERT(lease_);
    core::Reactor& reactor = pool_->reactor();
    // The timer may have fired after the previous block was complete.
    connection_->stop.store(Stop::no, std::memory_order_relaxed);
    if (patience_ != Duration::max()) reactor.timers().schedule(deadline_, reactor.now() + patience_);
    auto fetched = co_await pool_->fetch(std::move(lease_));
    reactor.timers().cancel(deadline_);
    if (!fetched) {
      end();
      co_return std::unexpected(std::move(fetched.error()));
    }
    lease_ = *std::move(fetched);
    std::swap(block_, lease_->block);
    last_ = lease_->last;
    if (lease_->error) {
      Error error = *std::move(lease_->error);
      end();
      co_return std::unexpected(std::move(error));
    }
    if (columns_.empty()) columns_ = pool_->column_lists().find(statement_, *lease_->names);
    // The cursor owns the rows now, so the connection can serve the next statement while this client still reads.
    if (last_) end();
    fetched_ = true;
    co_return Result<void>{};
  }

 private:
  struct Deadline : core::Timer {
    explicit Deadline(ScanCursor& cursor) : Timer(fire), cursor(cursor) {}
    static void fire(core::Timer& timer) noexcept {
      const ScanCursor& cursor = static_cast<Deadline&>(timer).cursor;
      if (cursor.connection_->generation != cursor.generation_) return;
      cursor.connection_->stop.store(Stop::timed_out, std::memory_order_relaxed);
    }
    ScanCursor& cursor;
  };

  core::Task<Result<Block>> next_block() {
    auto fetched = co_await fetch();
    if (!fetched) co_return std::unexpected(std::move(fetched.error()));
    fetched_ = false;
    co_return Result<Block>(view());
  }

  [[nodiscard]] Block view() const { return block_.view(columns_, last_); }

  void end() { lease_.release(); }

  std::shared_ptr<ScanPool> pool_;
  const Statement& statement_;
  std::span<const Column> columns_;  // from the first fetch on
  Lease lease_;                      // empty while a thread has it, and after the end
  std::shared_ptr<ScanConnection> connection_;
  std::uint64_t generation_;
  Duration patience_;
  Deadline deadline_;
  RowBlock block_;
  bool fetched_ = false;  // block_ has not been returned to the caller yet
  bool last_ = false;
};

}  // namespace

void ScanConnection::begin(const Statement& statement, OwnedArguments arguments, std::size_t whole) {
  SLUICE_ASSERT(running_ == nullptr);
  slot_ = statement.id.slot;
  text_ = statement.text;
  one_row_ = statement.one_row;
  whole_ = whole;
  arguments_ = std::move(arguments);
  error.reset();
  names = nullptr;
  last = false;
  stop.store(Stop::no, std::memory_order_relaxed);
}

void ScanConnection::fetch() {
  block.clear();
  Result<void> done{};
  if (const Stop why = stop.load(std::memory_order_relaxed); why != Stop::no) {
    done = refuse(failure_of(why), "the statement ran into its deadline");
  } else if (running_ == nullptr) {
    done = start();
  }
  if (done) done = step_rows();
  if (!done) {
    error = std::move(done.error());
    reset();
  } else if (last) {
    reset();
  }
}

Result<void> ScanConnection::start() {
  if (connection_ == nullptr) {
    auto opened = Connection::open(options_, Purpose::scan);
    if (!opened) return std::unexpected(std::move(opened.error()));
    connection_ = *std::move(opened);
    sqlite3_progress_handler(
        connection_->get(), stop_interval,
        [](void* self) {
          return static_cast<ScanConnection*>(self)->stop.load(std::memory_order_relaxed) == Stop::no ? 0 : 1;
        },
        this);
  }
  if (whole_ != 0 && !in_transaction_) {
    if (auto begun = connection_->run("BEGIN"); !begun) return begun;
    in_transaction_ = true;
  }
  auto prepared = connection_->prepared(slot_, text_);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  running_ = *prepared;
  return sqlite::bind(running_->handle, arguments_.list);
}

Result<void> ScanConnection::step_rows() {
  sqlite3_stmt* const handle = running_->handle;
  for (;;) {
    const int code = sqlite3_step(handle);
    if (names == nullptr) {
      // The schema, and with it the program, may have changed before this first step; from now on it is fixed.
      connection_->refresh(*running_);
      names = &running_->names;
    }
    if (code == SQLITE_DONE) {
      last = true;
      return {};
    }
    if (code != SQLITE_ROW) return std::unexpected(failed(code));
    const std::size_t before = block.bytes();
    append_row(block, handle, running_->columns);
    if (block.bytes() - before > options_.row_bytes) return refuse(Failure::statement, row_too_long);
    if (one_row_ && block.rows() == 2) {
      last = true;
      return {};
    }
    if (whole_ != 0) {
      if (block.bytes() + block.fields().size() > whole_) return std::unexpected(over_limit(whole_));
    } else if (block.bytes() >= scan_block_bytes || block.fields().size() >= scan_block_fields) {
      return {};
    }
  }
}

Error ScanConnection::failed(int code) const {
  const Stop why = stop.load(std::memory_order_relaxed);
  if (code == SQLITE_INTERRUPT && why != Stop::no)
    return Error{failure_of(why), {}, "the statement ran into its deadline"};
  return connection_->error(code, text_);
}

void ScanConnection::reset() {
  if (running_ == nullptr) return;
  sqlite3_reset(running_->handle);
  // The bound texts are destroyed with this statement's arguments.
  sqlite3_clear_bindings(running_->handle);
  running_ = nullptr;
  arguments_ = {};
}

void ScanConnection::end_transaction() {
  if (std::exchange(in_transaction_, false)) (void)connection_->run("COMMIT");
}

void Lease::release() noexcept {
  if (connection_ != nullptr) pool_->release(std::move(connection_));
  connection_.reset();
  pool_.reset();
}

struct ScanPool::Waiter {
  struct Patience : core::Timer {
    explicit Patience(Waiter& waiter) : Timer(fire), waiter(waiter) {}
    static void fire(core::Timer& timer) noexcept {
      Waiter& waiter = static_cast<Patience&>(timer).waiter;
      waiter.unlink();
      waiter.caller.resume();
    }
    Waiter& waiter;
  };

  Waiter(ScanPool& pool, Instant until) : pool(pool), until(until), patience(*this) {}
  Waiter(const Waiter&) = delete;
  ~Waiter() { unlink(); }

  bool await_ready() {
    if (pool.waiting_ != 0) return false;  // earlier waiters go first
    lease = pool.try_acquire();
    return static_cast<bool>(lease);
  }
  bool await_suspend(std::coroutine_handle<> handle) {
    if (pool.waiting_ >= pool.options_.scan_queue) return false;
    caller = handle;
    linked = true;
    previous = pool.last_;
    (pool.last_ != nullptr ? pool.last_->next : pool.first_) = this;
    pool.last_ = this;
    ++pool.waiting_;
    pool.reactor_.timers().schedule(patience, until);
    return true;
  }
  Lease await_resume() { return std::move(lease); }

  void unlink() {
    if (!linked) return;
    (previous != nullptr ? previous->next : pool.first_) = next;
    (next != nullptr ? next->previous : pool.last_) = previous;
    linked = false;
    --pool.waiting_;
    pool.reactor_.timers().cancel(patience);
  }

  ScanPool& pool;
  Instant until;
  Patience patience;
  std::coroutine_handle<> caller;
  Lease lease;  // empty after the wait if the wait was refused
  bool linked = false;
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
};

ScanPool::ScanPool(const SqliteOptions& options, core::Reactor& reactor, core::Mailbox& mailbox,
                   core::BlockingPool& threads)
    : options_(options), reactor_(reactor), mailbox_(mailbox), threads_(threads) {}

core::Task<Result<std::unique_ptr<Cursor>>> ScanPool::query(const Statement& statement, OwnedArguments arguments,
                                                            QueryOptions options) {
  // The database may be destroyed during the wait; a member coroutine's frame does not keep the pool alive.
  const std::shared_ptr<ScanPool> self = shared_from_this();
  const Instant wait_until = reactor_.now() + std::chrono::milliseconds(options_.scan_wait_ms);
  Waiter waiter(*this, std::min(options.deadline, wait_until));
  Lease lease = co_await waiter;
  if (!lease) co_return refuse(Failure::unavailable, "every connection for scanning statements is busy");
  lease->begin(statement, std::move(arguments));
  Duration patience = Duration::max();
  if (options.deadline != never) {
    patience = std::max(options.deadline - reactor_.now(), Duration::zero());
  } else if (options_.statement_timeout_ms != 0) {
    patience = std::chrono::milliseconds(options_.statement_timeout_ms);
  }
  auto cursor = std::make_unique<ScanCursor>(self, statement, std::move(lease), patience);
  auto fetched = co_await cursor->fetch();
  if (!fetched) co_return std::unexpected(std::move(fetched.error()));
  co_return Result<std::unique_ptr<Cursor>>(std::move(cursor));
}

class ScanPool::Reading final : public Transaction {
 public:
  Reading(std::shared_ptr<ScanPool> pool, const TransactionOptions& options)
      : pool_(std::move(pool)), until_(options.deadline), result_bytes_(options.result_bytes), deadline_(*this) {}

  core::Task<Result<Written>> execute(const Statement& statement, std::span<const Argument> arguments) override {
    return run(statement, OwnedArguments(arguments), SIZE_MAX);
  }
  core::Task<Result<Written>> finish(const Statement& statement, std::span<const Argument> arguments,
                                     std::size_t most_rows) override {
    return run(statement, OwnedArguments(arguments), most_rows);
  }
  core::Task<Result<void>> commit() override { co_return Result<void>{}; }

 private:
  struct Deadline : core::Timer {
    explicit Deadline(Reading& reading) : Timer(fire), reading(reading) {}
    static void fire(core::Timer& timer) noexcept {
      static_cast<Deadline&>(timer).reading.connection_->stop.store(Stop::timed_out, std::memory_order_relaxed);
    }
    Reading& reading;
  };

  core::Task<Result<Written>> run(const Statement& statement, OwnedArguments arguments, std::size_t most_rows) {
    ScanPool& pool = *pool_;
    if (!lease_) {
      Waiter waiter(pool,
                    std::min(until_, pool.reactor_.now() + std::chrono::milliseconds(pool.options_.scan_wait_ms)));
      lease_ = co_await waiter;
      if (!lease_) co_return refuse(Failure::unavailable, "every connection for scanning statements is busy");
    }
    lease_->begin(statement, std::move(arguments), result_bytes_);
    connection_ = lease_.connection();
    if (until_ != never) pool.reactor_.timers().schedule(deadline_, until_);
    auto fetched = co_await pool.fetch(std::move(lease_));
    pool.reactor_.timers().cancel(deadline_);
    if (!fetched) co_return std::unexpected(std::move(fetched.error()));
    lease_ = *std::move(fetched);
    if (lease_->error) co_return std::unexpected(*std::move(lease_->error));
    auto rows = std::make_shared<RowBlock>();
    std::swap(*rows, lease_->block);
    if (rows->rows() > most_rows) co_return refuse(Failure::statement, "the statement returns more than one row");
    co_return Written{.rows = rows->view(pool.column_lists_.find(statement, *lease_->names), true), .owner = rows};
  }

  const std::shared_ptr<ScanPool> pool_;
  const Instant until_;
  const std::size_t result_bytes_;
  Lease lease_;                                 // empty before the first statement, and while a thread has it
  std::shared_ptr<ScanConnection> connection_;  // the lease's connection
  Deadline deadline_;
};

std::unique_ptr<Transaction> ScanPool::begin(const TransactionOptions& options) {
  return std::make_unique<Reading>(shared_from_this(), options);
}

core::Task<Result<Lease>> ScanPool::fetch(Lease lease) {
  StopGuard guard(lease);
  FetchWork work{std::move(lease)};
  auto done = co_await threads_.run(mailbox_, std::move(work));
  guard.done();
  if (!done) co_return refuse(Failure::unavailable, "the blocking pool takes no more work");
  co_return Result<Lease>(*std::move(done));
}

void ScanPool::resize(std::uint32_t connections, Duration wait) {
  options_.scan_connections = connections;
  options_.scan_wait_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
  while (open_ > options_.scan_connections && !idle_.empty()) {
    idle_.pop_back();
    --open_;
  }
  if (waiting_ != 0) reactor_.at_turn_end(grant_);
}

Lease ScanPool::try_acquire() {
  if (closed_) return {};
  if (idle_.empty()) {
    if (open_ >= options_.scan_connections) return {};
    ++open_;
    return {shared_from_this(), std::make_shared<ScanConnection>(options_)};
  }
  // The most recently used one has the warmest cache.
  Lease lease(shared_from_this(), std::move(idle_.back()));
  idle_.pop_back();
  return lease;
}

void ScanPool::release(std::shared_ptr<ScanConnection> connection) noexcept {
  // A thread that finishes after its core has ended returns the lease itself; no caller waits for it.
  if (std::this_thread::get_id() != home_) return connection->reset();
  ++connection->generation;
  if (closed_) return connection->reset();
  if (connection->running()) {
    // A thread ends the statement, which may delete a sorter's temporary file; the core does so if the queue is full.
    if (!std::exchange(connection->reset_asked, true)) {
      resets_.spawn(reset(Lease(shared_from_this(), std::move(connection))));
      return;
    }
    connection->reset();
  }
  connection->reset_asked = false;
  connection->end_transaction();
  connection->block.clear();
  if (open_ > options_.scan_connections) {
    --open_;
    return;
  }
  idle_.push_back(std::move(connection));
  if (waiting_ != 0) reactor_.at_turn_end(grant_);
}

core::Task<void> ScanPool::reset(Lease lease) {
  ResetWork work{std::move(lease)};
  (void)co_await threads_.run(mailbox_, std::move(work));
}

void ScanPool::grant() noexcept {
  while (first_ != nullptr) {
    Lease lease = try_acquire();
    if (!lease) return;
    Waiter& waiter = *first_;
    waiter.unlink();
    waiter.lease = std::move(lease);
    waiter.caller.resume();
  }
}

void ScanPool::close() {
  closed_ = true;
  resets_.cancel();
  idle_.clear();
}

}  // namespace sluice::sql::sqlite
