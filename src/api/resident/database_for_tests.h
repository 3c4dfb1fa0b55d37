#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/resident/rows_for_tests.h"
#include "core/task.h"
#include "sql/database.h"

namespace sluice::api::resident {

// A database for tests. Every query returns the rows that were set last, or an error.
class TestDatabase final : public sql::Database {
 public:
  void gives(TestRows rows) {
    rows_ = std::make_shared<const TestRows>(std::move(rows));
    error_.reset();
  }
  // `rows`: how many rows come before the error.
  void fails(sql::Error error, std::size_t rows = 0) {
    error_ = std::move(error);
    rows_before_error_ = rows;
  }

  core::Task<sql::Result<sql::Statement>> prepare(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement& statement,
                                                               std::span<const sql::Argument> arguments,
                                                               const sql::QueryOptions&) override {
    std::string text = statement.text;
    for (const sql::Argument& argument : arguments) text += " " + std::string(argument.text.value_or("NULL"));
    asked.push_back(std::move(text));
    if (error_ && rows_before_error_ == 0) return std::unexpected(*error_);
    return std::unique_ptr<sql::Cursor>(std::make_unique<TestCursor>(*this));
  }
  core::Task<sql::Result<sql::Statement>> prepare_writing(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions&) override { return nullptr; }
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan&, const sql::TransactionOptions&) override { return nullptr; }
  core::Task<sql::Result<void>> ping(Instant) override { co_return sql::Result<void>{}; }

  std::vector<std::string> asked;  // the statements, each followed by its arguments

 private:
  // Returns blocks of two rows.
  class TestCursor final : public sql::Cursor {
   public:
    explicit TestCursor(TestDatabase& database) : database_(database), rows_(database.rows_) {}
    core::Async<sql::Result<sql::Block>> next() override {
      if (database_.error_ && at_ >= database_.rows_before_error_) return std::unexpected(*database_.error_);
      const std::size_t begin = std::exchange(at_, std::min(at_ + 2, rows_->size()));
      return rows_->block(begin, at_);
    }

   private:
    TestDatabase& database_;
    const std::shared_ptr<const TestRows> rows_;
    std::size_t at_ = 0;
  };

  std::shared_ptr<const TestRows> rows_;
  std::optional<sql::Error> error_;
  std::size_t rows_before_error_ = 0;
};

}  // namespace sluice::api::resident
