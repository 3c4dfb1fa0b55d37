#include "sql/sqlite/database.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sqlite3.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "sql/sqlite/staging.h"

namespace sluice::sql {
namespace {

// A look-up that takes more of SQLite's instructions than this (well below a millisecond) moves to the pool: the plan
// shows which index is searched, but not how many rows match.
constexpr int progress_interval = 4'000;
constexpr int look_up_budget = 1;
constexpr int unlimited = 1'000'000'000;  // for statements other than look-ups
constexpr std::size_t spare_blocks_max = 64;

// SQLite refuses to bind a value longer than the connection's limit.
bool fits_the_core(std::span<const Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.text && argument.text->size() > sqlite::look_up_max_bytes) [[unlikely]]
      return false;
  }
  return true;
}

std::unexpected<Error> refuse(Failure failure, std::string message) {
  return std::unexpected(Error{failure, {}, std::move(message)});
}

}  // namespace

class SqliteDatabase::LookUpCursor final : public Cursor {
 public:
  LookUpCursor(SqliteDatabase& database, std::span<const Column> columns, std::unique_ptr<sqlite::RowBlock> block)
      : database_(database), columns_(columns), block_(std::move(block)) {}
  ~LookUpCursor() override { database_.give_back(std::move(block_)); }

  core::Async<Result<Block>> next() override { return Result<Block>(block_->view(columns_, true)); }

 private:
  SqliteDatabase& database_;
  std::span<const Column> columns_;
  std::unique_ptr<sqlite::RowBlock> block_;
};

Result<std::unique_ptr<SqliteDatabase>> SqliteDatabase::open(const SqliteOptions& options, core::Reactor& reactor,
                                                             core::Mailbox& mailbox, core::BlockingPool& threads,
                                                             SqliteWriter* writer) {
  if (auto prepared = sqlite::prepare_file(options); !prepared) return std::unexpected(std::move(prepared.error()));
  auto connection = sqlite::Connection::open(options, sqlite::Purpose::look_up);
  if (!connection) return std::unexpected(std::move(connection.error()));
  SqliteOptions opened = options;
  opened.file = (*connection)->file();
  std::unique_ptr<SqliteDatabase> database(
      new SqliteDatabase(opened, *std::move(connection), reactor, mailbox, threads, writer));
  database->begin_ = database->connection_->prepare_own("BEGIN");
  database->commit_ = database->connection_->prepare_own("COMMIT");
  if (database->begin_ == nullptr || database->commit_ == nullptr) {
    return std::unexpected(database->connection_->error(sqlite3_errcode(database->connection_->get())));
  }
  return database;
}

SqliteDatabase::SqliteDatabase(const SqliteOptions& options, std::unique_ptr<sqlite::Connection> connection,
                               core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads,
                               SqliteWriter* writer)
    : options_(options),
      connection_(std::move(connection)),
      reactor_(reactor),
      mailbox_(mailbox),
      threads_(threads),
      writer_(writer),
      scans_(std::make_shared<sqlite::ScanPool>(options, reactor, mailbox, threads)) {
  sqlite3_progress_handler(
      connection_->get(), progress_interval,
      [](void* self) { return --static_cast<SqliteDatabase*>(self)->budget_ < 0 ? 1 : 0; }, this);
}

SqliteDatabase::~SqliteDatabase() {
  scans_->close();
  end_transaction();
  sqlite3_finalize(begin_);
  sqlite3_finalize(commit_);
}

core::Task<Result<Statement>> SqliteDatabase::prepare(std::string_view text, std::span<const Parameter> declared) {
  budget_ = unlimited;
  auto statement = connection_->describe(text, declared);
  if (statement) give_id(*statement);
  co_return statement;
}

core::Async<Result<std::unique_ptr<Cursor>>> SqliteDatabase::query(const Statement& statement,
                                                                   std::span<const Argument> arguments,
                                                                   const QueryOptions& options) {
  SLUICE_ASSERT(arguments.size() == statement.parameters.size());
  if (options.deadline <= reactor_.now()) [[unlikely]] {
    return refuse(Failure::timed_out, "the deadline has passed before the statement began");
  }
  budget_ = unlimited;
  auto found = connection_->prepared(statement.id.slot, statement.text);
  if (!found) [[unlikely]]
    return std::unexpected(std::move(found.error()));
  sqlite::Prepared& prepared = **found;
  if (prepared.plan.on_core && fits_the_core(arguments)) {
    auto block = take_block();
    auto outcome = look_up(prepared, statement, arguments, *block);
    if (outcome && *outcome == Outcome::complete) [[likely]] {
      ++counters_.look_ups;
      const std::span<const Column> columns = prepared.other_list.empty() ? statement.columns : prepared.other_list;
      return Result<std::unique_ptr<Cursor>>(std::make_unique<LookUpCursor>(*this, columns, std::move(block)));
    }
    give_back(std::move(block));
    if (!outcome) return std::unexpected(std::move(outcome.error()));
    ++counters_.overflows;
    // If most results are too large, stop trying on the core.
    if (++prepared.overflows > 8 && prepared.overflows > prepared.uses / 2) prepared.plan.on_core = false;
  }
  ++counters_.scans;
  return scans_->query(statement, sqlite::OwnedArguments(arguments), options);
}

Result<SqliteDatabase::Outcome> SqliteDatabase::look_up(sqlite::Prepared& prepared, const Statement& statement,
                                                        std::span<const Argument> arguments, sqlite::RowBlock& block) {
  if (auto begun = begin_transaction(); !begun) [[unlikely]]
    return std::unexpected(std::move(begun.error()));
  ++prepared.uses;
  if (auto bound = sqlite::bind(prepared.handle, arguments, statement.parameters); !bound) [[unlikely]] {
    return std::unexpected(std::move(bound.error()));
  }
  budget_ = look_up_budget;
  int code = sqlite3_step(prepared.handle);
  connection_->refresh(prepared);
  if (prepared.listed_for != statement.id.serial) [[unlikely]] {
    const auto list = scans_->column_lists().find(statement, prepared.names);
    prepared.other_list = list.data() == statement.columns.data() ? std::span<const Column>{} : list;
    prepared.listed_for = statement.id.serial;
  }
  bool complete = true;
  while (code == SQLITE_ROW) {
    sqlite::append_row(block, prepared.handle, prepared.columns);
    complete = block.rows() < sqlite::look_up_max_rows && block.bytes() < sqlite::look_up_max_bytes;
    if (!complete) break;
    if (prepared.plan.single_row || (statement.one_row && block.rows() == 2)) {
      code = SQLITE_DONE;
      break;
    }
    code = sqlite3_step(prepared.handle);
  }
  if (code == SQLITE_DONE) [[likely]] {
    sqlite3_reset(prepared.handle);
    return Outcome::complete;
  }
  Error error = connection_->error(code, prepared.text);
  sqlite3_reset(prepared.handle);
  switch (code & 0xFF) {
    case SQLITE_ROW:        // too many rows
    case SQLITE_INTERRUPT:  // too much work
    case SQLITE_TOOBIG:     // a large value
    case SQLITE_BUSY:       // the file is locked: a thread may wait for that, a core may not
      return Outcome::too_large;
    default:
      return std::unexpected(std::move(error));
  }
}

Result<void> SqliteDatabase::begin_transaction() {
  // A client that has received the answer to a write may send its next request within the same turn.
  const std::uint64_t version = writer_ != nullptr ? writer_->observers()->version() : 0;
  if (in_transaction_ && version == version_) [[likely]]
    return {};
  end_transaction();
  budget_ = unlimited;
  const int code = connection_->step_own(begin_);
  if (code != SQLITE_DONE) return std::unexpected(connection_->error(code));
  in_transaction_ = true;
  version_ = version;
  ++counters_.transactions;
  reactor_.at_turn_end(turn_end_);
  return {};
}

void SqliteDatabase::end_transaction() noexcept {
  if (!in_transaction_) return;
  in_transaction_ = false;
  // A disk error, for example, may have ended the transaction already.
  budget_ = unlimited;
  if (sqlite3_get_autocommit(connection_->get()) == 0) (void)connection_->step_own(commit_);
}

std::unique_ptr<sqlite::RowBlock> SqliteDatabase::take_block() {
  if (spare_blocks_.empty()) return std::make_unique<sqlite::RowBlock>();
  auto block = std::move(spare_blocks_.back());
  spare_blocks_.pop_back();
  return block;
}

void SqliteDatabase::give_back(std::unique_ptr<sqlite::RowBlock> block) {
  if (spare_blocks_.size() >= spare_blocks_max) return;
  block->clear();
  spare_blocks_.push_back(std::move(block));
}

core::Task<Result<void>> SqliteDatabase::ping(Instant deadline) {
  if (deadline <= reactor_.now()) co_return refuse(Failure::timed_out, "the deadline has passed");
  // An open file outlives its name. Without this check, a deleted or replaced database would look healthy.
  if (auto there = connection_->check_file(); !there) co_return there;
  budget_ = unlimited;
  co_return connection_->run("SELECT 1 FROM sqlite_schema LIMIT 1");
}

core::Task<Result<Statement>> SqliteDatabase::prepare_writing(std::string_view text,
                                                              std::span<const Parameter> declared) {
  if (writer_ == nullptr) co_return refuse(Failure::statement, "the database cannot be written to");
  auto statement = writer_->describe(text, declared);
  if (statement) give_id(*statement);
  co_return statement;
}

class SqliteDatabase::Writing final : public Transaction {
 public:
  Writing(SqliteDatabase& database, std::unique_ptr<Transaction> inner)
      : database_(database), inner_(std::move(inner)) {}

  core::Task<Result<Written>> execute(const Statement& statement, std::span<const Argument> arguments) override {
    return listed(statement, inner_->execute(statement, arguments));
  }
  core::Task<Result<Written>> finish(const Statement& statement, std::span<const Argument> arguments,
                                     std::size_t most_rows) override {
    return end(listed(statement, inner_->finish(statement, arguments, most_rows)));
  }
  core::Task<Result<void>> commit() override { return end(inner_->commit()); }

 private:
  template <class T>
  core::Task<Result<T>> end(core::Task<Result<T>> ending) {
    auto result = co_await std::move(ending);
    // A transaction of look-ups that began earlier in this turn may not see the write.
    database_.end_transaction();
    co_return result;
  }

  // The writer's list of columns is destroyed with the rows; the database's list stays (Block::columns).
  core::Task<Result<Written>> listed(const Statement& statement, core::Task<Result<Written>> running) {
    auto written = co_await std::move(running);
    if (written && written->rows.columns.data() != statement.columns.data()) {
      std::vector<std::string> names;
      for (const Column& column : written->rows.columns) names.push_back(column.name);
      written->rows.columns = database_.scans_->column_lists().find(statement, names);
    }
    co_return written;
  }

  SqliteDatabase& database_;
  std::unique_ptr<Transaction> inner_;
};

// Like Writing, for the writes of a set.
class SqliteDatabase::StagingHere final : public Staging {
 public:
  StagingHere(SqliteDatabase& database, const SetPlan& plan)
      : database_(database),
        inner_(database.options_, plan, database.reactor_, database.mailbox_, database.threads_, *database.writer_) {}

  core::Task<Result<void>> add(std::span<const StagedValue> values, std::span<const std::uint64_t> lines) override {
    return inner_.add(values, lines);
  }
  bool is_refused() const override { return inner_.is_refused(); }
  core::Task<Result<SetOutcome>> apply(std::span<const Argument> arguments, const ApplyOptions& options) override {
    auto outcome = co_await inner_.apply(arguments, options);
    database_.end_transaction();
    co_return outcome;
  }

 private:
  SqliteDatabase& database_;
  SqliteStaging inner_;
};

std::unique_ptr<Staging> SqliteDatabase::stage(const SetPlan& plan, const TransactionOptions&) {
  SLUICE_ASSERT(writer_ != nullptr);
  return std::make_unique<StagingHere>(*this, plan);
}

std::unique_ptr<Transaction> SqliteDatabase::begin(const TransactionOptions& options) {
  TransactionOptions bounded = options;
  if (options_.statement_timeout_ms != 0 && bounded.deadline == never) {
    bounded.deadline = reactor_.now() + std::chrono::milliseconds(options_.statement_timeout_ms);
  }
  if (options.reads_only) return scans_->begin(bounded);
  SLUICE_ASSERT(writer_ != nullptr);
  return std::make_unique<Writing>(*this, writer_->begin(reactor_, mailbox_, bounded));
}

}  // namespace sluice::sql
