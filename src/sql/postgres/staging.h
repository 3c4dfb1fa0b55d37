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

// The rows of a set in a temporary table of one connection, which it has for itself: by COPY as they come, outside of
// the transaction that then writes, so that this one is short and can be tried again.
class Staging final : public sql::Staging {
 public:
  Staging(Pool& pool, const SetPlan& plan, const TransactionOptions& options);
  ~Staging() override;

  [[nodiscard]] core::Task<Result<void>> add(std::span<const StagedValue> values,
                                             std::span<const std::uint64_t> lines) override;
  [[nodiscard]] core::Task<Result<SetOutcome>> apply(std::span<const Argument> arguments,
                                                     const ApplyOptions& options) override;

 private:
  [[nodiscard]] core::Task<Result<void>> begin();
  [[nodiscard]] core::Task<Result<void>> end_copy();
  [[nodiscard]] core::Task<Result<Message>> message();
  [[nodiscard]] std::optional<Error> look_for_error();
  [[nodiscard]] core::Task<Result<std::optional<std::vector<StagedFault>>>> find_duplicates(Transaction& transaction);
  [[nodiscard]] core::Task<Result<SetOutcome>> write(std::span<const Argument> arguments,
                                                     const ApplyOptions& options);
  [[nodiscard]] core::Task<Result<void>> roll_back();
  void set_timeout();
  void take_error(const Message& message);

  Pool& pool_;
  const SetPlan& plan_;
  const Isolation isolation_;
  const std::vector<Setting> settings_;
  Query conversation_;
  std::unique_ptr<Transaction> staging_;  // in which the temporary table is made and filled
  bool copying_ = false;
  std::optional<Error> error_;            // of the COPY
  std::optional<StagedFault> fault_;      // the row that it is about
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> lines_;      // of the last rows
  Buffer chunk_;
};

}  // namespace sluice::sql::postgres
