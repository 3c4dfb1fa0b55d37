#include "api/batch/joint_database.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace sluice::api::batch {

// The complete rows of one statement.
class JointDatabase::Rows final : public sql::Cursor {
 public:
  explicit Rows(sql::Written written) : written_(std::move(written)) {}
  core::Async<sql::Result<sql::Block>> next() override { return sql::Result<sql::Block>(written_.rows); }

 private:
  sql::Written written_;
};

// A transaction within the common transaction. Its commit sends nothing by itself.
class JointDatabase::Part final : public sql::Transaction {
 public:
  Part(JointDatabase& database, Settings settings) : database_(database), settings_(std::move(settings)) {}

  core::Task<sql::Result<sql::Written>> execute(const sql::Statement& statement,
                                                std::span<const sql::Argument> arguments) override {
    return database_.run(statement, Values(arguments), std::exchange(settings_, std::nullopt));
  }
  core::Task<sql::Result<sql::Written>> finish(const sql::Statement& statement,
                                               std::span<const sql::Argument> arguments,
                                               std::size_t most_rows) override {
    return finish(database_.run(statement, Values(arguments), std::exchange(settings_, std::nullopt)), most_rows);
  }
  core::Task<sql::Result<void>> commit() override { co_return sql::Result<void>{}; }

 private:
  core::Task<sql::Result<sql::Written>> finish(core::Task<sql::Result<sql::Written>> running, std::size_t most_rows) {
    auto written = co_await std::move(running);
    if (written && written->rows.rows > most_rows) {
      co_return std::unexpected(
          database_.failed(sql::Error{sql::Failure::statement, {}, "the statement returns more than one row", 0}));
    }
    co_return written;
  }

  JointDatabase& database_;
  std::optional<Settings> settings_;  // for the first statement
};

class JointDatabase::NoStaging final : public sql::Staging {
 public:
  core::Task<sql::Result<void>> add(std::span<const sql::StagedValue>, std::span<const std::uint64_t>) override {
    co_return std::unexpected(refusal());
  }
  core::Task<sql::Result<sql::SetOutcome>> apply(std::span<const sql::Argument>, const sql::ApplyOptions&) override {
    co_return std::unexpected(refusal());
  }

 private:
  static sql::Error refusal() { return {sql::Failure::statement, {}, "a set cannot be written in a batch", 0}; }
};

JointDatabase::Values::Values(std::span<const sql::Argument> given) : arguments(given.begin(), given.end()) {
  for (const sql::Argument& argument : given) {
    sizes_.push_back(bytes.size());
    if (argument.text) bytes += *argument.text;
  }
}

void JointDatabase::Values::settle() {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto& text = arguments[i].text;
    if (text) text = std::string_view(bytes).substr(sizes_[i], text->size());
  }
}

void JointDatabase::open(const sql::TransactionOptions& options) {
  close();
  options_ = options;
  options_.settings = {};
}

void JointDatabase::close() {
  transaction_.reset();
  failure_.reset();
}

core::Task<sql::Result<void>> JointDatabase::commit() {
  if (!transaction_) co_return sql::Result<void>{};
  auto committed = co_await transaction_->commit();
  if (!committed) failure_ = committed.error();
  co_return committed;
}

core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> JointDatabase::query(const sql::Statement& statement,
                                                                            std::span<const sql::Argument> arguments,
                                                                            const sql::QueryOptions& options) {
  return read(statement, Values(arguments), {options.settings.begin(), options.settings.end()});
}

std::unique_ptr<sql::Transaction> JointDatabase::begin(const sql::TransactionOptions& options) {
  return std::make_unique<Part>(*this, Settings(options.settings.begin(), options.settings.end()));
}

std::unique_ptr<sql::Staging> JointDatabase::stage(const sql::SetPlan&, const sql::TransactionOptions&) {
  return std::make_unique<NoStaging>();
}

core::Task<sql::Result<std::unique_ptr<sql::Cursor>>> JointDatabase::read(const sql::Statement& statement,
                                                                          Values values, Settings settings) {
  auto written = co_await run(statement, std::move(values), std::move(settings), !options_.reads_only);
  if (!written) co_return std::unexpected(std::move(written.error()));
  co_return std::make_unique<Rows>(std::move(*written));
}

core::Task<sql::Result<sql::Written>> JointDatabase::run(const sql::Statement& statement, Values values,
                                                         std::optional<Settings> settings, bool reads) {
  if (failure_) co_return std::unexpected(failed(*failure_));
  if (!transaction_) transaction_ = inner_.begin(options_);
  if (settings) transaction_->renew(*settings, reads);
  values.settle();
  auto written = co_await transaction_->execute(statement, values.arguments);
  if (!written) co_return std::unexpected(failed(std::move(written.error())));
  co_return written;
}

// A retry of one call gets the same error, because only the whole batch can be retried.
sql::Error JointDatabase::failed(sql::Error error) {
  if (!failure_) failure_ = error;
  return error;
}

}  // namespace sluice::api::batch
