#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/prepare/loop.h"
#include "base/time.h"
#include "sql/database.h"

namespace sluice::app {

// The answers that a database gave while a plan was prepared.
struct Recording {
  using Row = std::vector<std::optional<std::string>>;

  std::map<std::string, sql::Result<sql::Statement>> statements;  // their ids are not known to any connection
  std::map<std::string, sql::Result<std::vector<Row>>> rows;
};

// Records the answers of a database while a plan is prepared, for the next plan. If the database is unreachable when
// the next plan is prepared, recorded queries are answered from the recording, and other queries fail. Used by one
// thread.
class RecordedDatabase final : public sql::Database {
 public:
  // `known`: the recording of the plan that is served; may be null. `limit`: how long one answer may take before
  // Loop::run() throws; max(): no limit. `name` is for that message.
  RecordedDatabase(std::unique_ptr<sql::Database> inner, std::string name, Loop& loop, Duration limit,
                   std::shared_ptr<const Recording> known);

  // From now on the database is not queried. Returns false if there is no recording.
  [[nodiscard]] bool set_away(const sql::Error& why) {
    if (known_) away_ = why;
    return known_ != nullptr;
  }
  // The database's error if a query was not in the recording; nothing if all queries were in it.
  [[nodiscard]] const std::optional<sql::Error>& missed() const { return missed_; }
  [[nodiscard]] const std::shared_ptr<Recording>& recording() const { return recording_; }

  core::Task<sql::Result<sql::Statement>> prepare(std::string_view text,
                                                  std::span<const sql::Parameter> declared) override;
  core::Task<sql::Result<sql::Statement>> prepare_parallel(std::string_view text,
                                                           std::span<const sql::Parameter> declared,
                                                           const sql::ParallelReading& reading) override;
  core::Task<sql::Result<sql::Statement>> prepare_writing(std::string_view text,
                                                          std::span<const sql::Parameter> declared) override;
  core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement& statement,
                                                               std::span<const sql::Argument> arguments,
                                                               const sql::QueryOptions& options) override;
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions& options) override;
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan& plan, const sql::TransactionOptions& options) override;
  core::Task<sql::Result<void>> ping(Instant deadline) override { return inner_->ping(deadline); }

 private:
  using Rows = std::vector<Recording::Row>;
  class Replay;

  core::Task<sql::Result<sql::Statement>> describe(std::string key, core::Task<sql::Result<sql::Statement>> ask);
  core::Task<sql::Result<std::unique_ptr<sql::Cursor>>> read(const sql::Statement& statement,
                                                             std::span<const sql::Argument> arguments,
                                                             sql::QueryOptions options);
  template <class Answer>
  core::Task<Answer> answer(std::map<std::string, Answer> Recording::* answers, std::string key,
                            core::Task<Answer> ask);

  const std::unique_ptr<sql::Database> inner_;
  const std::string name_;
  Loop& loop_;
  const Duration limit_;
  const std::shared_ptr<const Recording> known_;
  const std::shared_ptr<Recording> recording_ = std::make_shared<Recording>();
  std::optional<sql::Error> away_;
  std::optional<sql::Error> missed_;
};

}  // namespace sluice::app
