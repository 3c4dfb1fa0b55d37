#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/options.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/session_reset.h"

namespace sluice::sql::postgres {

class ParallelCursor;

// One core's access to one PostgreSQL database. It starts to connect when it is created, and reconnects after the
// server was unreachable. Its cursors and tasks must be destroyed before it.
class Database final : public sql::Database {
 public:
  Database(core::Reactor& reactor, Options options);

  [[nodiscard]] core::Task<Result<Statement>> prepare(std::string_view text,
                                                      std::span<const Parameter> declared) override;
  [[nodiscard]] core::Async<Result<std::unique_ptr<Cursor>>> query(const Statement& statement,
                                                                   std::span<const Argument> arguments,
                                                                   const QueryOptions& options) override;
  [[nodiscard]] core::Task<Result<Statement>> prepare_writing(std::string_view text,
                                                              std::span<const Parameter> declared) override;
  [[nodiscard]] core::Task<Result<Statement>> prepare_parallel(std::string_view text,
                                                               std::span<const Parameter> declared,
                                                               const ParallelReading& reading) override;
  [[nodiscard]] std::unique_ptr<sql::Transaction> begin(const TransactionOptions& options) override;
  [[nodiscard]] std::unique_ptr<sql::Staging> stage(const SetPlan& plan, const TransactionOptions& options) override;
  [[nodiscard]] core::Task<Result<void>> ping(Instant deadline) override;
  void retire() override { pool_.retire(); }
  void resize(std::uint32_t pool, Duration wait) override { pool_.resize(pool, wait); }
  [[nodiscard]] Readings readings() override;

  [[nodiscard]] const Counters& counters() { return pool_.counters(); }
  [[nodiscard]] std::size_t open_connections() const { return pool_.open_connections(); }

 private:
  [[nodiscard]] core::Task<Result<Statement>> prepare(std::string_view text, std::span<const Parameter> declared,
                                                      bool reads);

  [[nodiscard]] static core::Task<Result<std::unique_ptr<Cursor>>> run(std::unique_ptr<Query> query);

  [[nodiscard]] static core::Task<Result<std::unique_ptr<Cursor>>> run(std::unique_ptr<ParallelCursor> cursor);

  Pool pool_;
  Statement ping_;
  HarmlessWords harmless_;
  std::uint32_t explained_ = 0;  // plans that prepare_parallel() has requested
};

}  // namespace sluice::sql::postgres
