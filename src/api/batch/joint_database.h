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

// A database in which everything happens in one transaction of another one, whoever asks: what is begun and committed
// here is only done when commit() has succeeded. Statements have been prepared by the other one's prepare_writing().
// For one batch at a time; statements run one after the other.
class JointDatabase final : public sql::Database {
 public:
  explicit JointDatabase(sql::Database& inner) : inner_(inner) {}

  // A new transaction, of which nothing is sent before its first statement. Each query() and begin() renews it, with
  // the settings that are given there: what one call has set in the session does not hold for the next one. What a
  // query() runs is refused if it writes, as it is alone.
  void open(const sql::TransactionOptions& options);
  [[nodiscard]] core::Task<sql::Result<void>> commit();
  // Rolls back what has not been committed.
  void close();
  // What has ended the transaction; nothing: it goes on.
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
  // Deadline and isolation are those of open().
  [[nodiscard]] std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions& options) override;
  // There are no sets in a batch: what is staged fails.
  [[nodiscard]] std::unique_ptr<sql::Staging> stage(const sql::SetPlan& plan,
                                                    const sql::TransactionOptions& options) override;
  [[nodiscard]] core::Task<sql::Result<void>> ping(Instant deadline) override { return inner_.ping(deadline); }

 private:
  class Rows;
  class Part;
  class NoStaging;
  using Settings = std::vector<sql::Setting>;

  // Copies of a statement's values, for what begins later.
  struct Values {
    explicit Values(std::span<const sql::Argument> arguments);
    Values(Values&&) = default;
    std::string bytes;
    std::vector<sql::Argument> arguments;  // views into `bytes`, once it has found its place
    void settle();

   private:
    std::vector<std::size_t> sizes_;
  };

  [[nodiscard]] core::Task<sql::Result<std::unique_ptr<sql::Cursor>>> read(const sql::Statement& statement,
                                                                           Values values, Settings settings);
  // `settings`: null for a statement that goes on with those of the one before. `reads`: as for renew().
  [[nodiscard]] core::Task<sql::Result<sql::Written>> run(const sql::Statement& statement, Values values,
                                                          std::optional<Settings> settings, bool reads = false);
  [[nodiscard]] sql::Error failed(sql::Error error);

  sql::Database& inner_;
  sql::TransactionOptions options_;
  std::unique_ptr<sql::Transaction> transaction_;  // null: nothing has been sent
  std::optional<sql::Error> failure_;
};

}  // namespace sluice::api::batch
