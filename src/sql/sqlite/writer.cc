#include "sql/sqlite/writer.h"

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>

#include "base/assert.h"
#include "sql/sqlite/column_lists.h"

namespace sluice::sql {
namespace {

std::unexpected<Error> refuse(Failure failure, const char* message) {
  return std::unexpected(Error{failure, {}, message});
}

// Concatenates names; they contain no NUL.
template <class Named, class Name = std::identity>
std::string joined(const std::vector<Named>& all, Name name = {}) {
  std::string result;
  for (const Named& one : all) result.append(std::invoke(name, one)) += '\0';
  return result;
}

// The rows that a statement has returned.
struct Rows {
  sqlite::RowBlock block;
  std::vector<Column> columns;  // if they differ from those that were prepared
};

}  // namespace

// A request has two owners: the awaiter, and, until the request is delivered, the writer. The last owner frees it. It
// uses ordinary memory.
struct SqliteWriter::Request : core::Letter {
  enum class Does : std::uint8_t { one_write, step, last_step, commit, work };

  Request(core::Mailbox& mailbox, const Statement& statement, std::span<const Argument> given)
      : Letter(delivered),
        home(mailbox),
        slot(statement.id.slot),
        text(statement.text),
        columns(statement.columns.size()),
        names(joined(statement.columns, &Column::name)),
        arguments(given) {}
  // A session's commit.
  explicit Request(core::Mailbox& mailbox)
      : Letter(delivered),
        home(mailbox),
        slot(StatementId::unnamed),
        columns(0),
        arguments(std::span<const Argument>{}),
        does(Does::commit) {}

  static void delivered(Letter& letter) noexcept {
    auto& request = static_cast<Request&>(letter);
    const auto caller = std::exchange(request.caller, nullptr);
    if (caller) caller.resume();
    request.release();
  }
  void release() noexcept {
    if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  Request(core::Mailbox& mailbox, Work given)
      : Letter(delivered),
        home(mailbox),
        slot(StatementId::unnamed),
        columns(0),
        arguments(std::span<const Argument>{}),
        does(Does::work),
        work(std::move(given)) {}

  core::Mailbox& home;
  const std::uint32_t slot;
  const std::string text;
  const std::size_t columns;
  const std::string names;  // of the columns, as joined() writes them
  const sqlite::OwnedArguments arguments;
  std::size_t most_rows = SIZE_MAX;
  std::size_t result_bytes = TransactionOptions{}.result_bytes;
  bool must_do = false;
  Does does = Does::one_write;
  Work work;
  std::shared_ptr<Session> session;       // if this is a step
  std::atomic<bool> expired{false};       // set by the core at the deadline
  std::optional<Result<Written>> result;  // owned by the writer until it is delivered
  [[nodiscard]] bool is_kept() const { return *result && !(must_do && (*result)->nothing(columns != 0)); }

  std::coroutine_handle<> caller;  // used on the core; null: the caller was destroyed
  Request* newer = nullptr;        // in the queue, under its mutex
  Request* older = nullptr;        // in the queue, under its mutex
  bool is_queued = false;          // under the queue's mutex
  std::atomic<int> owners{2};
};

struct SqliteWriter::Queue {
  void push(Request& request) {
    request.newer = nullptr;
    request.older = newest;
    (newest != nullptr ? newest->newer : oldest) = &request;
    newest = &request;
    request.is_queued = true;
    ++size;
  }
  void unlink(Request& request) {
    (request.newer != nullptr ? request.newer->older : newest) = request.older;
    (request.older != nullptr ? request.older->newer : oldest) = request.newer;
    request.is_queued = false;
    --size;
  }

  std::mutex mutex;
  std::condition_variable changed;
  Request* oldest = nullptr;
  Request* newest = nullptr;
  std::size_t size = 0;
  bool ended = false;
};

// Shared by the steps of one transaction and the writer's thread, once the first step has been queued.
struct SqliteWriter::Session {
  enum class State : std::uint8_t {
    queued,     // the writer has not reached its first step
    open,       // the writer waits for the next step, or executes one
    abandoned,  // no further step will come
    over,       // committed or rolled back
  };
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::queued;
  Request* step = nullptr;  // the next step; owned by the writer
};

class SqliteWriter::Awaiter {
 public:
  Awaiter(SqliteWriter& writer, core::Reactor& reactor, Request* request, Instant deadline)
      : queue_(writer.queue_), limit_(writer.options_.write_queue), request_(request), deadline_(*this) {
    if (deadline != never) reactor.timers().schedule(deadline_, deadline);
  }
  Awaiter(const Awaiter&) = delete;
  ~Awaiter() {
    if (!posted_) {
      delete request_;
      return;
    }
    if (request_->caller) {
      request_->caller = nullptr;
      (void)withdraw();
    }
    request_->release();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller) {
    request_->caller = caller;
    if (Session* const session = request_->session.get(); session != nullptr) {
      const std::lock_guard lock(session->mutex);
      if (session->state == Session::State::over) return false;
      if (session->state == Session::State::open) {
        posted_ = true;
        session->step = request_;
        session->changed.notify_one();
        return true;
      }
    }
    {
      const std::lock_guard lock(queue_->mutex);
      SLUICE_ASSERT(!queue_->ended);
      if (queue_->size >= limit_) return false;
      posted_ = true;  // set before the writer can see the request, because it may be delivered at once
      queue_->push(*request_);
    }
    queue_->changed.notify_one();
    return true;
  }
  Result<Written> await_resume() {
    if (!posted_ && request_->session && request_->session->state == Session::State::over) {
      return refuse(Failure::timed_out, "the transaction has held up other writes for too long");
    }
    if (!posted_) return refuse(Failure::unavailable, "too many writes are waiting");
    return std::move(*request_->result);
  }

 private:
  struct Deadline : core::Timer {
    explicit Deadline(Awaiter& awaiter) : Timer(fire), awaiter(awaiter) {}
    static void fire(core::Timer& timer) noexcept { static_cast<Deadline&>(timer).awaiter.expire(); }
    Awaiter& awaiter;
  };

  // Returns false if the writer has already taken it.
  bool withdraw() noexcept {
    {
      const std::lock_guard lock(queue_->mutex);
      if (!request_->is_queued) return false;
      queue_->unlink(*request_);
    }
    request_->release();  // in place of the writer, which will never see it
    return true;
  }
  void expire() noexcept {
    request_->expired.store(true, std::memory_order_relaxed);
    if (!withdraw()) return;
    request_->result = refuse(Failure::timed_out, "the deadline has passed before the write began");
    std::exchange(request_->caller, nullptr).resume();
  }

  std::shared_ptr<Queue> queue_;
  std::size_t limit_;
  Request* request_;
  Deadline deadline_;
  bool posted_ = false;
};

Result<std::unique_ptr<SqliteWriter>> SqliteWriter::open(const SqliteOptions& options,
                                                         std::shared_ptr<CommitObservers> observers) {
  if (options.read_only) return refuse(Failure::statement, "the database is configured as read-only");
  if (auto prepared = sqlite::prepare_file(options); !prepared) return std::unexpected(std::move(prepared.error()));
  auto connection = sqlite::Connection::open(options, sqlite::Purpose::write);
  if (!connection) return std::unexpected(std::move(connection.error()));
  if (sqlite3_db_readonly((*connection)->get(), "main") != 0) {
    return std::unexpected(Error{Failure::statement, {}, options.path + ": the file may not be written"});
  }
  SqliteOptions opened = options;
  opened.file = (*connection)->file();
  return std::unique_ptr<SqliteWriter>(new SqliteWriter(opened, *std::move(connection), std::move(observers)));
}

SqliteWriter::SqliteWriter(const SqliteOptions& options, std::unique_ptr<sqlite::Connection> connection,
                           std::shared_ptr<CommitObservers> observers)
    : options_(options),
      connection_(std::move(connection)),
      queue_(std::make_shared<Queue>()),
      observers_(std::move(observers)) {
  sqlite3_progress_handler(
      connection_->get(), sqlite::stop_interval,
      [](void* self) {
        const Request* request = static_cast<SqliteWriter*>(self)->current_;
        return request != nullptr && request->expired.load(std::memory_order_relaxed) ? 1 : 0;
      },
      this);
  // Signals are blocked while the thread is created, because it inherits the mask: other threads handle signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "sluice-write");
}

SqliteWriter::~SqliteWriter() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ended = true;
  }
  queue_->changed.notify_all();
  thread_.join();
}

std::size_t SqliteWriter::queued() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->size;
}

Result<Statement> SqliteWriter::describe(std::string_view text, std::span<const Parameter> declared) {
  // The writer's own connection belongs to its thread.
  auto connection = sqlite::Connection::open(options_, sqlite::Purpose::write);
  if (!connection) return std::unexpected(std::move(connection.error()));
  return (*connection)->describe(text, declared);
}

core::Task<Result<Written>> SqliteWriter::execute(core::Reactor& reactor, core::Mailbox& mailbox,
                                                  const Statement& statement, std::span<const Argument> arguments,
                                                  const QueryOptions& options) {
  SLUICE_ASSERT(arguments.size() == statement.parameters.size());
  return wait(*this, reactor, std::make_unique<Request>(mailbox, statement, arguments), statement.columns,
              options.deadline);
}

class SqliteWriter::Conversation final : public Transaction {
 public:
  Conversation(SqliteWriter& writer, core::Reactor& reactor, core::Mailbox& mailbox, const TransactionOptions& options)
      : writer_(writer),
        reactor_(reactor),
        mailbox_(mailbox),
        deadline_(options.deadline),
        result_bytes_(options.result_bytes),
        must_do_(options.must_do) {}
  ~Conversation() override {
    if (!session_) return;
    const std::lock_guard lock(session_->mutex);
    if (session_->state != Session::State::over) session_->state = Session::State::abandoned;
    session_->changed.notify_one();
  }

  core::Task<Result<Written>> execute(const Statement& statement, std::span<const Argument> arguments) override {
    if (!session_) session_ = std::make_shared<Session>();
    return send(statement, arguments, Request::Does::step, SIZE_MAX);
  }
  core::Task<Result<Written>> finish(const Statement& statement, std::span<const Argument> arguments,
                                     std::size_t most_rows) override {
    return send(statement, arguments, session_ ? Request::Does::last_step : Request::Does::one_write, most_rows);
  }
  core::Task<Result<void>> commit() override {
    if (!session_) co_return Result<void>{};
    auto request = std::make_unique<Request>(mailbox_);
    request->session = session_;
    auto done = co_await wait(writer_, reactor_, std::move(request), {}, deadline_);
    if (!done) co_return std::unexpected(std::move(done.error()));
    co_return Result<void>{};
  }

 private:
  core::Task<Result<Written>> send(const Statement& statement, std::span<const Argument> arguments, Request::Does does,
                                   std::size_t most_rows) {
    SLUICE_ASSERT(arguments.size() == statement.parameters.size());
    auto request = std::make_unique<Request>(mailbox_, statement, arguments);
    request->most_rows = most_rows;
    request->result_bytes = result_bytes_;
    request->must_do = must_do_ && does != Request::Does::step;
    request->does = does;
    request->session = session_;
    return wait(writer_, reactor_, std::move(request), statement.columns, deadline_);
  }

  SqliteWriter& writer_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  const Instant deadline_;
  const std::size_t result_bytes_;
  const bool must_do_;
  std::shared_ptr<Session> session_;  // null before the first step
};

std::unique_ptr<Transaction> SqliteWriter::begin(core::Reactor& reactor, core::Mailbox& mailbox,
                                                 const TransactionOptions& options) {
  return std::make_unique<Conversation>(*this, reactor, mailbox, options);
}

core::Task<Result<Written>> SqliteWriter::wait(SqliteWriter& writer, core::Reactor& reactor,
                                               std::unique_ptr<Request> request, std::span<const Column> columns,
                                               Instant deadline) {
  if (deadline <= reactor.now()) co_return refuse(Failure::timed_out, "the deadline has passed before the write began");
  Awaiter awaiter(writer, reactor, request.release(), deadline);
  auto written = co_await awaiter;
  if (written && written->rows.columns.empty()) written->rows.columns = columns;
  co_return written;
}

// If memory runs out, the request fails, and the thread continues.
template <class Act>
Result<Written> SqliteWriter::guarded(Act act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    for (sqlite3_stmt* each = nullptr; (each = sqlite3_next_stmt(connection_->get(), each)) != nullptr;) {
      if (sqlite3_stmt_busy(each) != 0) sqlite3_reset(each);
    }
    return refuse(Failure::unavailable, "no memory");
  }
}

bool SqliteWriter::works_alone(const Request& request) const { return request.session || request.work; }

core::Task<Result<void>> SqliteWriter::run(core::Reactor& reactor, core::Mailbox& mailbox, Work work) {
  auto done = co_await wait(*this, reactor, std::make_unique<Request>(mailbox, std::move(work)), {}, never);
  if (!done) co_return std::unexpected(std::move(done.error()));
  co_return Result<void>{};
}

void SqliteWriter::deliver(Request& request) {
  if (!request.home.post(request)) request.release();
}

void SqliteWriter::serve() {
  std::vector<Request*> batch;
  std::unique_lock lock(queue_->mutex);
  for (;;) {
    queue_->changed.wait(lock, [&] { return queue_->ended || queue_->oldest != nullptr; });
    if (queue_->oldest == nullptr) return;
    batch.clear();
    while (queue_->oldest != nullptr && batch.size() < options_.write_batch) {
      const bool alone = works_alone(*queue_->oldest);
      if (alone && !batch.empty()) break;
      batch.push_back(queue_->oldest);
      queue_->unlink(*queue_->oldest);
      if (alone) break;
    }
    lock.unlock();
    if (batch.front()->session) {
      converse(*batch.front());
    } else if (batch.front()->work) {
      Request& request = *batch.front();
      request.result = guarded([&] {
        auto done = request.work();
        return done ? Result<Written>(Written{}) : std::unexpected(std::move(done.error()));
      });
      if (sqlite3_get_autocommit(connection_->get()) == 0) (void)connection_->run("ROLLBACK");
      deliver(request);
    } else {
      write(batch);
      for (Request* request : batch) deliver(*request);
    }
    lock.lock();
  }
}

Result<void> SqliteWriter::commit() {
  if (auto done = connection_->run("COMMIT"); !done) {
    done.error().at_commit = true;
    return done;
  }
  commits_.fetch_add(1, std::memory_order_relaxed);
  observers_->committed(changed_);
  return {};
}

void SqliteWriter::note_changes(const sqlite::Prepared& prepared) {
  for (const std::string& table : prepared.writes) {
    if (std::ranges::find(changed_, table) == changed_.end()) changed_.push_back(table);
  }
}

// Runs one transaction. Each step is delivered when it is done, the last one after the commit.
void SqliteWriter::converse(Request& first) {
  const std::shared_ptr<Session> session = first.session;
  Request* step = &first;
  changed_.clear();
  auto begun = connection_->begin_writing();
  if (!begun) step->result = std::unexpected(std::move(begun.error()));
  for (bool goes_on = begun && take_step(*step);; goes_on = take_step(*step)) {
    std::unique_lock lock(session->mutex);
    if (goes_on && session->state != Session::State::abandoned) {
      session->state = Session::State::open;
    } else if (session->state != Session::State::abandoned) {
      session->state = Session::State::over;
    }
    const bool waits = session->state == Session::State::open;
    lock.unlock();
    deliver(*step);
    if (!waits) break;
    lock.lock();
    const auto hold = std::chrono::milliseconds(options_.hold_ms);
    session->changed.wait_for(lock, hold,
                              [&] { return session->step != nullptr || session->state != Session::State::open; });
    step = std::exchange(session->step, nullptr);
    if (step == nullptr) {
      session->state = Session::State::over;
      break;
    }
  }
  if (sqlite3_get_autocommit(connection_->get()) == 0) (void)connection_->run("ROLLBACK");
  const std::lock_guard lock(session->mutex);
  session->state = Session::State::over;
  // A step that arrived just as the wait ended.
  if (Request* const late = std::exchange(session->step, nullptr); late != nullptr) {
    late->result = refuse(Failure::timed_out, "the transaction has held up other writes for too long");
    deliver(*late);
  }
}

// Returns false if the transaction has ended, successfully or not.
bool SqliteWriter::take_step(Request& request) {
  if (request.does == Request::Does::commit) {
    request.result = Written{};
  } else {
    current_ = &request;
    request.result = guarded([&] { return perform_statement(request); });
    current_ = nullptr;
  }
  if (!*request.result || request.does == Request::Does::step) {
    return request.result->has_value() && sqlite3_get_autocommit(connection_->get()) == 0;
  }
  if (!request.is_kept()) return false;
  if (auto done = commit(); !done) request.result = std::unexpected(std::move(done.error()));
  return false;
}

// When it returns, every request of the batch has its result.
void SqliteWriter::write(std::span<Request* const> batch) {
  for (;;) {
    if (auto begun = connection_->begin_writing(); !begun) return fail_all(batch, begun.error());
    changed_.clear();
    bool rolled_back = false;
    for (Request* request : batch) {
      if (request->result && !*request->result) continue;  // it has failed in an earlier round
      const Ended ended = perform(*request);
      rolled_back = ended == Ended::rolled_back;
      if (rolled_back) break;
    }
    // Some errors (a full disk, an interrupt) undo the whole transaction, including the work of other requests. No
    // result has been reported yet, so the others run again, without the failed one.
    if (rolled_back) continue;
    auto done = commit();
    if (done) return;
    // Deferred constraints fail at the commit, and do not show which request violated them.
    const bool constraint = (sqlite3_errcode(connection_->get()) & 0xFF) == SQLITE_CONSTRAINT;
    if (sqlite3_get_autocommit(connection_->get()) == 0) (void)connection_->run("ROLLBACK");
    if (constraint && batch.size() > 1) return write_alone(batch);
    return fail_all(batch, done.error());
  }
}

void SqliteWriter::write_alone(std::span<Request* const> batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (*batch[i]->result) write(batch.subspan(i, 1));
  }
}

void SqliteWriter::fail_all(std::span<Request* const> batch, const Error& error) {
  for (Request* request : batch) {
    if (!request->result || *request->result) request->result = std::unexpected(error);
  }
}

SqliteWriter::Ended SqliteWriter::perform(Request& request) {
  if (auto begun = connection_->run("SAVEPOINT request"); !begun) {
    request.result = std::unexpected(std::move(begun.error()));
  } else {
    const std::size_t changed_before = changed_.size();
    current_ = &request;
    request.result = guarded([&] { return perform_statement(request); });
    current_ = nullptr;
    if (!request.is_kept()) changed_.resize(changed_before);
    if (sqlite3_get_autocommit(connection_->get()) == 0) {
      const char* end = request.is_kept() ? "RELEASE request" : "ROLLBACK TO request; RELEASE request";
      if (auto ended = connection_->run(end); !ended) request.result = std::unexpected(std::move(ended.error()));
    }
  }
  if (sqlite3_get_autocommit(connection_->get()) == 0) return *request.result ? Ended::done : Ended::failed;
  // A success whose transaction was rolled back is a failure.
  if (*request.result) request.result = std::unexpected(connection_->error(sqlite3_errcode(connection_->get())));
  return Ended::rolled_back;
}

Result<Written> SqliteWriter::perform_statement(Request& request) {
  if (request.expired.load(std::memory_order_relaxed)) {
    return refuse(Failure::timed_out, "the deadline has passed before the write began");
  }
  auto prepared = connection_->prepared(request.slot, request.text);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  sqlite3* const database = connection_->get();
  sqlite3_stmt* const handle = (*prepared)->handle;
  if (auto bound = sqlite::bind(handle, request.arguments.list); !bound)
    return std::unexpected(std::move(bound.error()));

  Written written;
  const std::int64_t changed_before = sqlite3_total_changes64(database);
  std::shared_ptr<Rows> rows;
  int code = sqlite3_step(handle);
  connection_->refresh(**prepared);
  Result<void> good{};
  const bool changed = joined((*prepared)->names) != request.names;
  if (changed || code == SQLITE_ROW) rows = std::make_shared<Rows>();
  if (changed) rows->columns = sqlite::columns_of((*prepared)->names);
  while (good && code == SQLITE_ROW) {
    sqlite::append_row(rows->block, handle, (*prepared)->columns);
    if (rows->block.bytes() + rows->block.fields().size() > request.result_bytes) {
      good = std::unexpected(sqlite::over_limit(request.result_bytes));
    } else if (rows->block.rows() > request.most_rows) {
      good = refuse(Failure::statement, "the statement returns more than one row");
    } else {
      code = sqlite3_step(handle);
    }
  }
  if (good && code != SQLITE_DONE) good = std::unexpected(connection_->error(code, request.text));
  // If the statement made no changes, sqlite3_changes64() is still the count of an earlier statement.
  if (sqlite3_total_changes64(database) != changed_before) {
    written.changes = static_cast<std::uint64_t>(sqlite3_changes64(database));
    // That count excludes changes by INSTEAD OF triggers, and a view has only these.
    if (written.changes == 0) {
      written.changes = static_cast<std::uint64_t>(sqlite3_total_changes64(database) - changed_before);
    }
    note_changes(**prepared);
  }
  sqlite3_reset(handle);
  sqlite3_clear_bindings(handle);
  if (!good) return std::unexpected(std::move(good.error()));
  if (rows) written.rows = rows->block.view(rows->columns, true);
  written.rows.last = true;
  written.owner = std::move(rows);
  return written;
}

}  // namespace sluice::sql
