#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/reactor.h"
#include "core/task.h"
#include "http/request.h"
#include "http/response.h"
#include "sql/database.h"
#include "sql/set/set.h"

// For tests of writes: a database that only records what it is asked to do. Compiled only into tests.
namespace sluice::api::testing {

class FakeDatabase final : public sql::Database {
 public:
  // The result of a statement. By default it has changed one row and returns none.
  struct Step {
    std::vector<std::vector<const char*>> rows;
    std::uint64_t changes = 1;
    std::optional<sql::Error> error;
  };

  core::Task<sql::Result<sql::Statement>> prepare(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  core::Async<sql::Result<std::unique_ptr<sql::Cursor>>> query(const sql::Statement&, std::span<const sql::Argument>,
                                                               const sql::QueryOptions&) override {
    return std::unexpected(sql::Error{sql::Failure::statement, {}, "a write does not ask", 0});
  }
  core::Task<sql::Result<sql::Statement>> prepare_writing(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions& options) override {
    log += "begin";
    if (options.isolation == sql::Isolation::serializable) log += " serializable";
    if (options.isolation == sql::Isolation::repeatable_read) log += " repeatable read";
    log += '\n';
    settings.assign(options.settings.begin(), options.settings.end());
    must_do = options.must_do;
    return std::make_unique<FakeTransaction>(*this);
  }
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan&, const sql::TransactionOptions&) override {
    log += "stage\n";
    return std::make_unique<FakeStaging>(*this);
  }
  core::Task<sql::Result<void>> ping(Instant) override { co_return sql::Result<void>{}; }

  std::deque<Step> steps;
  std::optional<sql::Error> commit_error;
  std::optional<sql::Error> add_error;
  std::deque<sql::Result<sql::SetOutcome>> outcomes;
  std::string log;  // one line per call, "committed", or "gone" for a transaction destroyed without a commit
  std::vector<sql::Setting> settings;  // of the last begin()
  bool must_do = false;                // of the last begin()
  std::size_t added = 0;
  std::size_t refused_at = SIZE_MAX;  // is_refused() is true from this number of rows on
  std::size_t largest_batch = 0;
  sql::ApplyOptions applied;

 private:
  static void append(std::string& to, std::span<const sql::Argument> arguments) {
    for (const sql::Argument& argument : arguments) to += " " + (argument.text ? std::string(*argument.text) : "NULL");
    to += '\n';
  }

  class FakeTransaction final : public sql::Transaction {
   public:
    explicit FakeTransaction(FakeDatabase& database) : database_(database) {}
    ~FakeTransaction() override {
      if (!committed_) database_.log += "gone\n";
    }
    core::Task<sql::Result<sql::Written>> execute(const sql::Statement& statement,
                                                  std::span<const sql::Argument> arguments) override {
      database_.log += statement.text;
      append(database_.log, arguments);
      return answer(statement, SIZE_MAX, false);
    }
    core::Task<sql::Result<sql::Written>> finish(const sql::Statement& statement,
                                                 std::span<const sql::Argument> arguments,
                                                 std::size_t most_rows) override {
      database_.log += statement.text;
      append(database_.log, arguments);
      return answer(statement, most_rows, true);
    }
    core::Task<sql::Result<void>> commit() override {
      if (database_.commit_error) co_return std::unexpected(*std::exchange(database_.commit_error, std::nullopt));
      committed_ = true;
      database_.log += "committed\n";
      co_return sql::Result<void>{};
    }
    void renew(std::span<const sql::Setting> given, bool reads) override {
      database_.log += reads ? "renew reading" : "renew";
      for (const sql::Setting& setting : given) database_.log += " " + setting.name + "=" + setting.value;
      database_.log += '\n';
    }

   private:
    struct Rows {
      std::vector<sql::Field> fields;
    };
    core::Task<sql::Result<sql::Written>> answer(const sql::Statement& statement, std::size_t most_rows, bool last) {
      Step step;
      if (!database_.steps.empty()) {
        step = std::move(database_.steps.front());
        database_.steps.pop_front();
      }
      if (step.error) co_return std::unexpected(*step.error);
      auto rows = std::make_shared<Rows>();
      for (const auto& row : step.rows) {
        for (const char* text : row) {
          rows->fields.push_back(
              {text, text == nullptr ? 0 : static_cast<std::uint32_t>(std::string_view(text).size())});
        }
      }
      if (step.rows.size() > most_rows) {
        co_return std::unexpected(sql::Error{sql::Failure::statement, {}, "more than one row", 0});
      }
      if (last) {
        if (auto done = co_await commit(); !done) co_return std::unexpected(done.error());
      }
      sql::Written written;
      written.changes = step.changes;
      written.rows = {statement.columns, rows->fields, step.rows.size(), true};
      written.owner = std::move(rows);
      co_return written;
    }

    FakeDatabase& database_;
    bool committed_ = false;
  };

  class FakeStaging final : public sql::Staging {
   public:
    explicit FakeStaging(FakeDatabase& database) : database_(database) {}
    ~FakeStaging() override {
      if (!applied_) database_.log += "gone\n";
    }
    core::Task<sql::Result<void>> add(std::span<const sql::StagedValue> values,
                                      std::span<const std::uint64_t> lines) override {
      if (database_.add_error) co_return std::unexpected(*database_.add_error);
      database_.added += lines.size();
      database_.largest_batch = std::max(database_.largest_batch, lines.size());
      if (database_.added > 10) co_return sql::Result<void>{};
      const std::size_t columns = values.size() / lines.size();
      for (std::size_t row = 0; row < lines.size(); ++row) {
        database_.log += "line " + std::to_string(lines[row]) + ":";
        for (const sql::StagedValue& value : values.subspan(row * columns, columns)) {
          database_.log += " " + (value.text ? "'" + std::string(*value.text) + "'" : value.left_out ? "-" : "NULL");
        }
        database_.log += '\n';
      }
      co_return sql::Result<void>{};
    }
    bool is_refused() const override { return database_.added >= database_.refused_at; }
    core::Task<sql::Result<sql::SetOutcome>> apply(std::span<const sql::Argument> arguments,
                                                   const sql::ApplyOptions& options) override {
      applied_ = true;
      database_.applied = options;
      database_.log += "apply";
      append(database_.log, arguments);
      auto outcome = std::move(database_.outcomes.front());
      database_.outcomes.pop_front();
      co_return outcome;
    }

   private:
    FakeDatabase& database_;
    bool applied_ = false;
  };
};

// A body in pieces. If `broken` is set, reading fails with it at the end.
class Body final : public http::BodyReader {
 public:
  explicit Body(std::string_view bytes, std::size_t step = SIZE_MAX, std::optional<Errc> broken = {})
      : bytes_(bytes), step_(step), broken_(broken) {}
  core::Task<Result<std::string_view>> read() override {
    if (bytes_.empty() && broken_) co_return std::unexpected(Error{*broken_});
    const std::string_view piece = bytes_.substr(0, step_);
    bytes_.remove_prefix(piece.size());
    co_return piece;
  }

 private:
  std::string_view bytes_;
  std::size_t step_;
  std::optional<Errc> broken_;
};

// Runs the event loop until the handler has answered.
inline http::Response answer_of(core::Reactor& reactor, core::Async<http::Response> answer) {
  if (answer.ready()) return answer.take();
  std::optional<http::Response> late;
  core::TaskGroup tasks;
  tasks.spawn([](core::Async<http::Response> from, std::optional<http::Response>& into) -> core::Task<void> {
    into.emplace(co_await std::move(from));
  }(std::move(answer), late));
  while (!late) reactor.turn(reactor.now() + 50ms);
  return std::move(*late);
}

inline std::string body_of(const http::Response& response) {
  const auto* bytes = std::get_if<Buffer>(&response.body);
  return bytes != nullptr ? std::string(bytes->view()) : std::string{};
}

}  // namespace sluice::api::testing
