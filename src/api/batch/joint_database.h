#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/database.h"

namespace sluice::api::batch {

// Runs the statements of all calls of a batch in one transaction of another database. A call's own commit takes effect
// only after commit() has succeeded. The other database's prepare_writing() must have prepared the statements. Serves
// one batch at a time and runs its statements sequentially.
class JointDatabase final : public sql::Database {
 public:
  explicit JointDatabase(sql::Database& inner) : inner_(inner) {}

  // Opens a new transaction, but sends nothing before its first statement. Each query() and begin() renews it with its
  // own settings, so what one call sets in the session does not affect the next call. A query() that writes is refused,
  // as it is outside a batch.
  void open(const sql::TransactionOptions& options);
  [[nodiscard]] core::Task<sql::Result<void>> commit();
  // Rolls back what has not been committed.
  void close();
  // The error that ended the transaction; nullopt while it goes on.
  [[nodiscard]] const std::optional<sql::Error>& failure() const { return failure_; }

  [[nodiscard]] core::Task<sql::Result<sql::Statement>> prepare(std::string_view text,
                                                                std::span<const sql::Parameter> declared) override {
    return inner_.prepare(text, declared);
  }
  [[nodiscard]] core::Task<sql::Result<sql::Statement>> prepare_writing(
      std::string_view text, std::span<const sql::Parameter> declared) override {
    return inner_.prepare_writing(text, declared);
  }
  [[nodiscard]] core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement& statement,
                                                                             std::span<const sql::Argument> arguments,
                                                                             const sql::QueryOptions& options) override;
  [[nodiscard]] sql::Shapes& shapes() override { return inner_.shapes(); }
  // Uses the deadline and the isolation of open().
  [[nodiscard]] std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions& options) override;
  // Always fails, because sets are not allowed in a batch.
  [[nodiscard]] std::unique_ptr<sql::Staging> stage(const sql::SetPlan& plan,
                                                    const sql::TransactionOptions& options) override;
  [[nodiscard]] core::Task<sql::Result<void>> ping(Instant deadline) override { return inner_.ping(deadline); }

 private:
  class Rows;
  class Part;
  class NoStaging;
  using Settings = std::vector<sql::Setting>;

  // Copies of a statement's values for a task that starts later.
  struct Values {
    explicit Values(std::span<const sql::Argument> arguments);
    Values(Values&&) = default;
    std::string bytes;
    std::vector<sql::Argument> arguments;  // views into `bytes`, set once it no longer moves
    void settle();

   private:
    std::vector<std::size_t> sizes_;
  };

  [[nodiscard]] core::Task<sql::Result<std::unique_ptr<sql::Cursor>>> read(const sql::Statement& statement,
                                                                           Values values, Settings settings);
  // `settings`: nullopt to keep those of the previous statement. `reads`: as for renew().
  [[nodiscard]] core::Task<sql::Result<sql::Written>> run(const sql::Statement& statement, Values values,
                                                          std::optional<Settings> settings, bool reads = false);
  [[nodiscard]] sql::Error failed(sql::Error error);

  sql::Database& inner_;
  sql::TransactionOptions options_;
  std::unique_ptr<sql::Transaction> transaction_;  // null if nothing has been sent
  std::optional<sql::Error> failure_;
};

}  // namespace sluice::api::batch
