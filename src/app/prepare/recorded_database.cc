#include "app/prepare/recorded_database.h"

#include <utility>

#include <fmt/format.h>

#include "app/prepare/opened_database.h"

namespace sluice::app {
namespace {

core::Task<sql::Result<std::vector<Recording::Row>>> read_all(sql::Database& database, const sql::Statement& statement,
                                                              std::span<const sql::Argument> arguments,
                                                              sql::QueryOptions options) {
  const auto cursor = co_await database.query(statement, arguments, options);
  if (!cursor) co_return std::unexpected(cursor.error());
  std::vector<Recording::Row> rows;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      Recording::Row& row = rows.emplace_back();
      for (const sql::Field& field : block->row(i)) {
        row.push_back(field.is_null() ? std::nullopt : std::optional<std::string>(field.view()));
      }
    }
  }
  co_return rows;
}

// The key is the text, a NUL, and how the statement is prepared.
std::string key_of(std::string_view how, std::string_view text, std::span<const sql::Parameter> declared) {
  std::string key = fmt::format("{}{}{}", text, '\0', how);
  for (const sql::Parameter& parameter : declared) {
    key +=
        fmt::format("{}{}:{}", '\0', parameter.name, parameter.declared ? static_cast<int>(*parameter.declared) : -1);
  }
  return key;
}

}  // namespace

class RecordedDatabase::Replay final : public sql::Cursor {
 public:
  Replay(Rows rows, std::span<const sql::Column> columns) : rows_(std::move(rows)), columns_(columns) {
    for (const Recording::Row& row : rows_) {
      for (const auto& value : row) {
        fields_.push_back(value ? sql::Field{.data = value->data(), .size = static_cast<std::uint32_t>(value->size())}
                                : sql::Field{});
      }
    }
  }
  core::Async<sql::Result<sql::Block>> next() override {
    return sql::Result<sql::Block>(
        sql::Block{.columns = columns_, .fields = fields_, .rows = rows_.size(), .last = true});
  }

 private:
  const Rows rows_;
  const std::span<const sql::Column> columns_;
  std::vector<sql::Field> fields_;
};

RecordedDatabase::RecordedDatabase(std::unique_ptr<sql::Database> inner, std::string name, Loop& loop, Duration limit,
                                   std::shared_ptr<const Recording> known)
    : inner_(std::move(inner)), name_(std::move(name)), loop_(loop), limit_(limit), known_(std::move(known)) {}

template <class Answer>
core::Task<Answer> RecordedDatabase::answer(std::map<std::string, Answer> Recording::* answers, std::string key,
                                            core::Task<Answer> ask) {
  if (!away_) {
    if (limit_ != Duration::max()) {
      loop_.wait = {.until = loop_.reactor->now() + limit_,
                    .what = fmt::format("database \"{}\" has not answered within {} s: {}", name_,
                                        std::chrono::duration<double>(limit_).count(), key.c_str())};
    }
    Answer answered = co_await std::move(ask);
    loop_.wait = {};
    const bool is_answer = answered || answered.error().failure == sql::Failure::statement;
    if (is_answer) ((*recording_).*answers).insert_or_assign(std::move(key), answered);
    co_return answered;
  }
  const auto& recorded = (*known_).*answers;
  if (const auto found = recorded.find(key); found != recorded.end()) {
    ((*recording_).*answers).insert_or_assign(std::move(key), found->second);
    co_return found->second;
  }
  if (!missed_) missed_ = away_;
  co_return std::unexpected(sql::Error{
      sql::Failure::statement, {}, "the database is away, and this is not served yet: " + app::describe(*away_)});
}

core::Task<sql::Result<sql::Statement>> RecordedDatabase::describe(std::string key,
                                                                   core::Task<sql::Result<sql::Statement>> ask) {
  auto statement = co_await answer(&Recording::statements, std::move(key), std::move(ask));
  if (statement) give_id(*statement);  // the id in the served plan, if the columns are the same
  co_return statement;
}

core::Task<sql::Result<sql::Statement>> RecordedDatabase::prepare(std::string_view text,
                                                                  std::span<const sql::Parameter> declared) {
  return describe(key_of("alone", text, declared), inner_->prepare(text, declared));
}

core::Task<sql::Result<sql::Statement>> RecordedDatabase::prepare_parallel(std::string_view text,
                                                                           std::span<const sql::Parameter> declared,
                                                                           const sql::ParallelReading& reading) {
  const std::string how = fmt::format("on {} connections, {}", reading.connections, reading.ordered);
  return describe(key_of(how, text, declared), inner_->prepare_parallel(text, declared, reading));
}

core::Task<sql::Result<sql::Statement>> RecordedDatabase::prepare_writing(std::string_view text,
                                                                          std::span<const sql::Parameter> declared) {
  return describe(key_of("in a transaction", text, declared), inner_->prepare_writing(text, declared));
}

core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> RecordedDatabase::query(const sql::Statement& statement,
                                                                               std::span<const sql::Argument> arguments,
                                                                               const sql::QueryOptions& options) {
  return read(statement, arguments, options);
}

core::Task<sql::Result<std::unique_ptr<sql::Cursor>>> RecordedDatabase::read(const sql::Statement& statement,
                                                                             std::span<const sql::Argument> arguments,
                                                                             sql::QueryOptions options) {
  std::string key = statement.text;
  for (const sql::Argument& argument : arguments)
    key += fmt::format("{}{}{}", '\0', argument.text ? "=" : "", argument.text.value_or(""));
  auto rows = co_await answer(&Recording::rows, std::move(key), read_all(*inner_, statement, arguments, options));
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  co_return std::make_unique<Replay>(std::move(*rows), statement.columns);
}

std::unique_ptr<sql::Transaction> RecordedDatabase::begin(const sql::TransactionOptions& options) {
  return inner_->begin(options);
}

std::unique_ptr<sql::Staging> RecordedDatabase::stage(const sql::SetPlan& plan,
                                                      const sql::TransactionOptions& options) {
  return inner_->stage(plan, options);
}

}  // namespace sluice::app
