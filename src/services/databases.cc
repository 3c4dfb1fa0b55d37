#include "services/databases.h"

#include <algorithm>
#include <stdexcept>

#include "base/contains.h"
#include "sql/retries.h"

namespace sluice::services {
namespace {

sql::Error failed(sql::Failure failure, std::string message) {
  return {.failure = failure, .sqlstate = {}, .message = std::move(message)};
}

}  // namespace

std::optional<std::string_view> Rows::at(std::size_t row, std::string_view column) const {
  const auto found = std::ranges::find(names_, column);
  if (found == names_.end()) throw std::out_of_range("the answer has no column \"" + std::string(column) + '"');
  if (row >= size()) throw std::out_of_range("the answer has no row " + std::to_string(row));
  const Place place = fields_[row * names_.size() + static_cast<std::size_t>(found - names_.begin())];
  if (place.size == null) return std::nullopt;
  return std::string_view(texts_).substr(place.begin, place.size);
}

void Rows::add(const sql::Block& block) {
  if (names_.empty()) {
    for (const sql::Column& column : block.columns) names_.push_back(column.name);
  }
  for (const sql::Field& field : block.fields.first(block.rows * block.columns.size())) {
    fields_.push_back({.begin = texts_.size(), .size = field.is_null() ? null : field.size});
    texts_.append(field.view());
  }
}

core::Task<std::expected<Database::Call, sql::Error>> Database::prepare(const std::shared_ptr<sql::Database>& database,
                                                                        std::string_view text, bool writes,
                                                                        const std::vector<Value>& values) {
  if (database == nullptr) {
    co_return std::unexpected(
        failed(sql::Failure::unavailable, "the configuration that is served has no such database"));
  }
  auto& prepared = prepared_[writes ? 1 : 0];
  Call call;
  if (const auto found = prepared.find(std::string(text)); found != prepared.end()) {
    call.statement = found->second;
  } else {
    auto made = co_await (writes ? database->prepare_writing(text, {}) : database->prepare(text, {}));
    if (!made) co_return std::unexpected(std::move(made.error()));
    call.statement = std::make_shared<const sql::Statement>(std::move(*made));
    if (database == database_) {  // a reload may have replaced it meanwhile
      if (prepared.size() >= most_statements) prepared.clear();
      prepared.insert_or_assign(std::string(text), call.statement);
    }
  }
  for (const sql::Parameter& parameter : call.statement->parameters) {
    const auto value = std::ranges::find(values, parameter.name, &Value::name);
    if (value == values.end()) {
      co_return std::unexpected(
          failed(sql::Failure::bad_argument, "the parameter :" + parameter.name + " has no value"));
    }
    call.arguments.push_back({.text = value->text, .type = value->type});
  }
  for (const Value& value : values) {
    if (contains(call.statement->parameters, value.name, &sql::Parameter::name)) continue;
    co_return std::unexpected(failed(sql::Failure::bad_argument, "the statement has no parameter :" + value.name));
  }
  co_return call;
}

core::Task<Database::Result> Database::read(std::string_view statement, std::vector<Value> values, Duration timeout) {
  const std::shared_ptr<sql::Database> database = database_;
  const Instant deadline = reactor_.now() + timeout;
  const auto call = co_await prepare(database, statement, false, values);
  if (!call) co_return std::unexpected(call.error());
  const auto cursor = co_await database->query(*call->statement, call->arguments, {.deadline = deadline});
  if (!cursor) co_return std::unexpected(cursor.error());
  Rows rows;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    rows.add(*block);
    if (rows.texts_.size() + rows.fields_.size() > most_bytes) {
      co_return std::unexpected(failed(sql::Failure::too_large, "the answer is larger than 16 MiB"));
    }
  }
  co_return rows;
}

core::Task<Database::Result> Database::write(std::string_view statement, std::vector<Value> values, Duration timeout) {
  std::vector<Step> steps(1);
  steps.front() = {.statement = statement, .values = std::move(values)};
  auto written = co_await write_all(std::move(steps), timeout);
  if (!written) co_return std::unexpected(std::move(written.error()));
  co_return std::move(written->front());
}

core::Task<Database::Results> Database::write_all(std::vector<Step> steps, Duration timeout) {
  const std::shared_ptr<sql::Database> database = database_;
  const sql::TransactionOptions options{.deadline = reactor_.now() + timeout, .result_bytes = most_bytes};
  sql::Retries retries(0);
  for (;;) {
    std::vector<Call> calls;  // outlive the transaction
    for (const Step& step : steps) {
      auto call = co_await prepare(database, step.statement, true, step.values);
      if (!call) co_return std::unexpected(std::move(call.error()));
      calls.push_back(std::move(*call));
    }
    std::vector<Rows> rows;
    if (calls.empty()) co_return rows;
    std::optional<sql::Error> wrong;
    const auto transaction = database->begin(options);
    for (const Call& call : calls) {
      const auto written =
          co_await (&call == &calls.back() ? transaction->finish(*call.statement, call.arguments, SIZE_MAX)
                                           : transaction->execute(*call.statement, call.arguments));
      if (!written) {
        wrong = written.error();
        break;
      }
      rows.emplace_back();
      rows.back().add(written->rows);
      rows.back().changes_ = written->changes;
    }
    if (!wrong) co_return rows;
    if (!retries.again(*wrong)) co_return std::unexpected(std::move(*wrong));
  }
}

void Database::set(std::shared_ptr<sql::Database> database) {
  if (database == database_) return;
  database_ = std::move(database);
  for (auto& prepared : prepared_) prepared.clear();
}

Database& Databases::at(std::string_view name) {
  if (const auto found = all_.find(name); found != all_.end()) return *found->second;
  std::string text = "there is no [database." + std::string(name) + "]; the configuration has";
  if (all_.empty()) text += " none";
  for (const auto& [known, database] : all_) text += " \"" + known + '"';
  throw std::out_of_range(text);
}

void Databases::set(const std::vector<std::pair<std::string, std::shared_ptr<sql::Database>>>& databases) {
  for (auto& [name, database] : all_) {
    const auto given = std::ranges::find(databases, name, [](const auto& one) { return one.first; });
    if (given == databases.end()) database->set(nullptr);
  }
  for (const auto& [name, given] : databases) {
    auto& database = all_[name];
    if (database == nullptr) database = std::make_unique<Database>(reactor_);
    database->set(given);
  }
}

Database& database(msg::Context& context, std::string_view name) {
  auto* const databases = context.find<Databases>();
  if (databases == nullptr) throw std::logic_error("a host has no databases; sluice::Program has");
  return databases->at(name);
}

}  // namespace sluice::services
