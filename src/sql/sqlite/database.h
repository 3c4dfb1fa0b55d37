#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "sql/database.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/options.h"
#include "sql/sqlite/row_block.h"
#include "sql/sqlite/scan_pool.h"
#include "sql/sqlite/writer.h"

namespace sluice::sql {

// One core's access to a SQLite file. Statements that only look up rows through an index run on the core. All look-ups
// in one turn of the event loop share one read transaction, because each transaction costs system calls for SQLite's
// locks. Statements that scan or sort, and look-ups whose result is too large, run in the blocking pool.
class SqliteDatabase final : public Database {
 public:
  struct Counters {
    std::uint64_t look_ups = 0;      // answered on the core
    std::uint64_t overflows = 0;     // started on the core, too large for it, answered by the pool
    std::uint64_t scans = 0;         // started in the pool
    std::uint64_t transactions = 0;  // read transactions that look-ups have shared
  };

  // `reactor`, `mailbox` and `threads` outlive the database; `writer` (null: read-only) belongs to the process. Open
  // the first database of a file before other threads use the file.
  [[nodiscard]] static Result<std::unique_ptr<SqliteDatabase>> open(const SqliteOptions& options,
                                                                    core::Reactor& reactor, core::Mailbox& mailbox,
                                                                    core::BlockingPool& threads,
                                                                    SqliteWriter* writer = nullptr);
  ~SqliteDatabase() override;

  [[nodiscard]] core::Task<Result<Statement>> prepare(std::string_view text,
                                                      std::span<const Parameter> declared) override;
  [[nodiscard]] core::Async<Result<std::unique_ptr<Cursor>>> query(const Statement& statement,
                                                                   std::span<const Argument> arguments,
                                                                   const QueryOptions& options) override;
  [[nodiscard]] core::Task<Result<Statement>> prepare_writing(std::string_view text,
                                                              std::span<const Parameter> declared) override;
  // Once a transaction has ended, all reads on this core see what it has written.
  [[nodiscard]] std::unique_ptr<Transaction> begin(const TransactionOptions& options) override;
  [[nodiscard]] std::unique_ptr<Staging> stage(const SetPlan& plan, const TransactionOptions& options) override;
  [[nodiscard]] core::Task<Result<void>> ping(Instant deadline) override;
  void resize(std::uint32_t pool, Duration wait) override { scans_->resize(pool, wait); }
  [[nodiscard]] Readings readings() override;

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  class LookUpCursor;
  class Writing;
  class StagingHere;
  enum class Outcome : std::uint8_t { complete, too_large };
  struct TurnEnd : core::TurnHook {
    explicit TurnEnd(SqliteDatabase& database) : TurnHook(run), database(database) {}
    static void run(core::TurnHook& hook) noexcept { static_cast<TurnEnd&>(hook).database.end_transaction(); }
    SqliteDatabase& database;
  };

  SqliteDatabase(const SqliteOptions& options, std::unique_ptr<sqlite::Connection> connection, core::Reactor& reactor,
                 core::Mailbox& mailbox, core::BlockingPool& threads, SqliteWriter* writer);

  [[nodiscard]] Result<Outcome> look_up(sqlite::Prepared& prepared, const Statement& statement,
                                        std::span<const Argument> arguments, sqlite::RowBlock& block);
  [[nodiscard]] Result<void> begin_transaction();
  void end_transaction() noexcept;
  [[nodiscard]] std::unique_ptr<sqlite::RowBlock> take_block();
  void give_back(std::unique_ptr<sqlite::RowBlock> block);

  const SqliteOptions options_;
  std::unique_ptr<sqlite::Connection> connection_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  SqliteWriter* writer_;
  std::shared_ptr<sqlite::ScanPool> scans_;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  bool in_transaction_ = false;
  std::uint64_t version_ = 0;  // of the commit observers, before the transaction began
  int budget_ = 0;             // how often SQLite may still report progress in the current look-up
  std::vector<std::unique_ptr<sqlite::RowBlock>> spare_blocks_;
  TurnEnd turn_end_{*this};
  Counters counters_;
};

}  // namespace sluice::sql
