#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "sql/set/set.h"
#include "sql/sqlite/connection.h"
#include "sql/sqlite/writer.h"
#include "sql/staging.h"

namespace sluice::sql {

// Collects the rows of a set in a temporary table of its own connection; the blocking pool fills the table while rows
// arrive. The transaction that then writes runs on the writer's thread, so it cannot conflict with another write
// transaction of this process.
class SqliteStaging final : public Staging {
 public:
  SqliteStaging(const SqliteOptions& options, const SetPlan& plan, core::Reactor& reactor, core::Mailbox& mailbox,
                core::BlockingPool& threads, SqliteWriter& writer);
  ~SqliteStaging() override;

  [[nodiscard]] core::Task<Result<void>> add(std::span<const StagedValue> values,
                                             std::span<const std::uint64_t> lines) override;
  [[nodiscard]] bool is_refused() const override { return stage_->outcome.faults.size() >= most_staged_faults; }
  [[nodiscard]] core::Task<Result<SetOutcome>> apply(std::span<const Argument> arguments,
                                                     const ApplyOptions& options) override;

 private:
  // The state that the threads share; the last of them destroys it.
  struct Stage {
    Stage(const SqliteOptions& given, const SetPlan& plan_) : options(given), plan(plan_) {}
    ~Stage();
    [[nodiscard]] Result<void> open();
    [[nodiscard]] Result<void> insert(std::string_view texts, std::span<const std::uint64_t> lines);
    [[nodiscard]] Result<void> write(const ApplyOptions& how);
    [[nodiscard]] Result<void> write_opened();
    // `own`: arguments for those parameters of the statement that the plan does not have.
    [[nodiscard]] Result<sqlite::Prepared*> bound(const Statement& statement, std::span<const Argument> own = {});
    [[nodiscard]] Result<std::uint64_t> change(const SetStep& step, std::span<const Argument> own = {});
    [[nodiscard]] Result<std::uint64_t> change_each(sqlite3_stmt* rows, const std::string& each);
    [[nodiscard]] Result<std::uint64_t> execute(sqlite::Prepared& prepared);
    [[nodiscard]] Result<void> add_changes(const SetStep& step, std::uint64_t& to);
    [[nodiscard]] Result<std::array<std::uint64_t, 2>> counts();
    [[nodiscard]] Result<void> remove();
    [[nodiscard]] Result<void> remove_and_count();
    // `inserts`: whether it also inserts rows, and does not only update some.
    [[nodiscard]] Result<void> write_rows(std::uint64_t first, std::uint64_t last, bool inserts);
    [[nodiscard]] Result<void> find_refused(Error refusal, bool inserts = true);
    [[nodiscard]] Result<void> note_refused(std::uint64_t row, const Error& why);
    [[nodiscard]] Result<void> find_outside();
    [[nodiscard]] Result<void> find_duplicates();

    const SqliteOptions options;
    const SetPlan plan;  // a copy, because the configuration's may be destroyed before a thread has ended
    std::unique_ptr<sqlite::Connection> connection;
    sqlite3_stmt* load = nullptr;
    std::uint64_t rows = 0;
    sqlite::OwnedArguments owned;
    SetOutcome outcome;
    bool committed = false;
    std::vector<std::string> changed;  // tables that have been changed
    std::atomic<bool> abandoned{false};
    std::atomic<bool> expired{false};
  };

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  SqliteWriter& writer_;
  std::shared_ptr<Stage> stage_;
};

}  // namespace sluice::sql
