#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "sql/postgres/query.h"
#include "sql/postgres/transaction.h"
#include "sql/set/set.h"
#include "sql/staging.h"

namespace sluice::sql::postgres {

// Collects the rows of a set in a temporary table of one connection, which is reserved for it. COPY fills the table
// while rows arrive, outside of the transaction that later writes; so that transaction is short and can be retried.
//
// Behind a pooler (Options::prepared is false) the next transaction may have another session, which lacks the table or
// has another set's. So one transaction creates the table, fills it and writes. It begins when all rows are known, and
// can be retried, unless the rows exceed `held_bytes`.
class Staging final : public sql::Staging {
 public:
  Staging(Pool& pool, const SetPlan& plan, const TransactionOptions& options);
  ~Staging() override;

  [[nodiscard]] core::Task<Result<void>> add(std::span<const StagedValue> values,
                                             std::span<const std::uint64_t> lines) override;
  [[nodiscard]] bool is_refused() const override { return error_.has_value(); }
  [[nodiscard]] core::Task<Result<SetOutcome>> apply(std::span<const Argument> arguments,
                                                     const ApplyOptions& options) override;

 private:
  [[nodiscard]] core::Task<Result<void>> begin();
  [[nodiscard]] core::Task<Result<void>> end_copy();
  [[nodiscard]] core::Task<Result<Message>> message();
  [[nodiscard]] std::optional<Error> look_for_error();
  [[nodiscard]] core::Task<Result<void>> find_duplicates(Transaction& transaction, SetOutcome& outcome);
  [[nodiscard]] core::Task<Result<void>> find_outside(Transaction& transaction, std::span<const Argument> arguments,
                                                      SetOutcome& outcome);
  // Creates the functions that run the user's own statements, or drops them.
  [[nodiscard]] core::Task<Result<void>> make_functions(Transaction& transaction, bool drops = false);
  // Runs a statement of the plan with its subset of the plan's arguments.
  [[nodiscard]] core::Task<Result<Written>> run(Transaction& transaction, const Statement& planned,
                                                std::span<const Argument> arguments);
  [[nodiscard]] core::Task<Result<SetOutcome>> write(std::span<const Argument> arguments, const ApplyOptions& options);
  [[nodiscard]] core::Task<Result<void>> remove(Transaction& transaction, std::span<const Argument> arguments,
                                                SetOutcome& outcome);
  [[nodiscard]] core::Task<Result<void>> remove_and_count(Transaction& transaction, std::span<const Argument> arguments,
                                                          SetOutcome& outcome);
  [[nodiscard]] core::Task<Result<std::uint64_t>> staged_rows_there(Transaction& transaction,
                                                                    std::span<const Argument> arguments);
  // Finds the rows that the database has refused. Commits nothing.
  [[nodiscard]] core::Task<Result<SetOutcome>> find_refused(const Error& refusal, std::span<const Argument> arguments,
                                                            const ApplyOptions& options);
  [[nodiscard]] core::Task<Result<void>> roll_back(std::string_view command);
  void append(std::span<const StagedValue> values, std::span<const std::uint64_t> lines);
  void note_lines(std::uint64_t first_row, std::span<const std::uint64_t> lines);
  [[nodiscard]] std::uint64_t line_of(std::uint64_t row) const;  // 0: unknown
  void set_timeout();
  void take_error(const Message& message);

  Pool& pool_;
  const SetPlan& plan_;
  const Isolation isolation_;
  const std::vector<Setting> settings_;
  Query conversation_;
  const bool is_pooled_;
  std::unique_ptr<Transaction> staging_;  // creates and fills the temporary table; behind a pooler it also writes
  bool has_all_rows_ = true;              // chunk_ has them
  bool copying_ = false;
  std::optional<Error> error_;        // of the COPY
  std::optional<StagedFault> fault_;  // the row that caused it
  std::uint64_t rows_ = 0;
  // Consecutive rows whose line numbers increase by a constant step. Most bodies are a single run.
  struct Run {
    std::uint64_t row = 0;
    std::uint64_t known_until = 0;  // the row after its last
    std::uint64_t line = 0;         // of its first row
    std::uint64_t step = 0;
  };
  std::vector<Run> runs_;
  // The subject of an error of write().
  enum class Writing : std::uint8_t { other, first_update, rows };  // first_update: of rows, before any deletion
  Writing writing_ = Writing::other;
  Buffer chunk_;
};

}  // namespace sluice::sql::postgres
