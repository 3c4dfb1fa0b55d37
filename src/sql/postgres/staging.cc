#include "sql/postgres/staging.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/back_off.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/pool.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::size_t unsent_bytes = 256 << 10;  // beyond, whoever brings rows waits
constexpr std::size_t known_lines = 128 << 10;   // rows whose lines are still known when an error comes
constexpr Duration server_patience = 60s;        // for each answer, where there is no statement timeout
constexpr Duration first_pause = 2ms;
constexpr Duration longest_pause = 200ms;

Statement own_statement(std::string text) {
  Statement statement;
  statement.id = unnamed_statement;
  statement.text = std::move(text);
  return statement;
}

std::uint64_t number_in(const Field& field) {
  std::uint64_t number = 0;
  std::from_chars(field.data, field.data + field.size, number);
  return number;
}

std::string_view reason_of(std::string_view sqlstate) {
  if (sqlstate == "22P02" || sqlstate == "22P03") return "is not of the column's type";
  if (sqlstate == "22003") return "is out of the range of the column's type";
  if (sqlstate == "22001") return "is too long";
  if (sqlstate == "22007" || sqlstate == "22008") return "is no such date or time";
  return "is not accepted";
}

// "COPY sluice_stage, line 3, column score: ..."
void read_context(std::string_view context, std::uint64_t& line, std::string& column) {
  constexpr std::string_view before_line = ", line ";
  constexpr std::string_view before_column = ", column ";
  const auto at = context.find(before_line);
  if (at == context.npos) return;
  context.remove_prefix(at + before_line.size());
  std::from_chars(context.data(), context.data() + context.size(), line);
  const auto name = context.find(before_column);
  if (name == context.npos) return;
  context.remove_prefix(name + before_column.size());
  const auto end = context.find_first_of(":\n");
  column = context.substr(0, end);
}

}  // namespace

Staging::Staging(Pool& pool, const SetPlan& plan, const TransactionOptions& options)
    : pool_(pool),
      plan_(plan),
      isolation_(options.isolation == Isolation::standard ? Isolation::serializable : options.isolation),
      settings_(options.settings.begin(), options.settings.end()),
      conversation_(pool, never) {}

Staging::~Staging() {
  // The server waits for rows, and would not hear that it is to stop.
  if (copying_) {
    write_copy_fail(conversation_.connection().out(), "abandoned");
    conversation_.connection().flush_soon();
  }
}

void Staging::set_timeout() {
  const auto timeout = std::chrono::milliseconds(pool_.options().statement_timeout_ms);
  conversation_.set_deadline(pool_.reactor().now() + (timeout == 0ms ? server_patience : Duration(timeout)));
}

core::Task<Result<void>> Staging::begin() {
  if (staging_) co_return Result<void>{};
  std::vector<Setting> settings = settings_;
  settings.push_back({"statement_timeout", "0"});  // how long the client takes over its rows is not the server's matter
  staging_ = std::make_unique<Transaction>(pool_, conversation_, TransactionOptions{.settings = settings});
  const Statement create = own_statement(plan_.create);
  auto created = co_await staging_->execute(create, {});
  if (!created) co_return std::unexpected(std::move(created.error()));
  Connection& connection = conversation_.connection();
  connection.make_temporary();
  write_query(connection.out(), plan_.load);
  connection.expect_answer(conversation_);
  set_timeout();
  for (;;) {
    auto answer = co_await conversation_.message();
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    if (answer->type == 'G') break;
    if (answer->type == 'E') take_error(*answer);
    if (answer->type == 'Z') {
      co_return std::unexpected(error_.value_or(Error{Failure::lost, {}, "the server takes no rows", 0}));
    }
  }
  copying_ = true;
  co_return Result<void>{};
}

void Staging::take_error(const Message& message) {
  const auto notice = parse_notice(message.payload);
  if (!notice) {
    error_ = Error{Failure::lost, {}, "the server sent a malformed message", 0};
    return;
  }
  ServerError error(*notice);
  error_ = conversation_.error_of(error);
  if (error_->failure != Failure::bad_argument) return;
  std::uint64_t line = 0;
  StagedFault fault;
  read_context(notice->where, line, fault.column);
  if (line == 0) return;
  fault.row = line - 1;
  const std::uint64_t first_known = rows_ - lines_.size();
  if (fault.row >= first_known && fault.row < rows_) fault.line = lines_[fault.row - first_known];
  fault.reason = reason_of(error_->sqlstate);
  fault_ = std::move(fault);
}

// The server says at once when a row is wrong, and drops what follows.
std::optional<Error> Staging::look_for_error() {
  Connection& connection = conversation_.connection();
  for (;;) {
    Message message;
    switch (connection.next_message(message)) {
      case Connection::Progress::ready:
        if (message.type == 'E') take_error(message);
        if (message.type == 'Z') copying_ = false;
        continue;
      case Connection::Progress::need_more:
        if (connection.receive() == Connection::Received::bytes) continue;
        if (!copying_ || error_) return error_;
        return std::nullopt;
      default: {
        Error lost = connection.failure();
        lost.failure = Failure::lost;
        copying_ = false;
        return lost;
      }
    }
  }
}

core::Task<Result<void>> Staging::add(std::span<const StagedValue> values, std::span<const std::uint64_t> lines) {
  if (error_) co_return Result<void>{};  // apply() tells
  if (auto begun = co_await begin(); !begun) co_return begun;
  Connection& connection = conversation_.connection();
  Buffer& out = connection.out();
  const std::size_t columns = plan_.staged.size();
  for (std::size_t row = 0; row < lines.size(); ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      const StagedValue& value = values[row * columns + i];
      if (value.text) {
        append_copy_value(chunk_, *value.text);
      } else {
        chunk_.append("\\N");
      }
      chunk_.push_back('\t');
      if (plan_.optional[i]) chunk_.append(value.left_out ? "f\t" : "t\t");
    }
    char digits[48];
    char* end = std::to_chars(digits, digits + sizeof digits, lines[row]).ptr;
    *end++ = '\t';
    end = std::to_chars(end, digits + sizeof digits - 1, rows_++).ptr;
    *end++ = '\n';
    chunk_.append({digits, static_cast<std::size_t>(end - digits)});
    if (chunk_.size() >= chunk_bytes) {
      write_copy_data(out, chunk_.view());
      chunk_.clear();
    }
  }
  if (lines_.size() > known_lines) lines_.erase(lines_.begin(), lines_.end() - known_lines / 2);
  lines_.insert(lines_.end(), lines.begin(), lines.end());
  connection.flush_soon();
  while (out.size() > unsent_bytes) {
    if (auto wrong = look_for_error()) {
      if (fault_) co_return Result<void>{};
      co_return std::unexpected(std::move(*wrong));
    }
    set_timeout();
    connection.wake_when_sent();
    connection.flush_soon();
    co_await conversation_.progress();
  }
  if (auto wrong = look_for_error(); wrong && !fault_) co_return std::unexpected(std::move(*wrong));
  co_return Result<void>{};
}

core::Task<Result<void>> Staging::end_copy() {
  Connection& connection = conversation_.connection();
  if (copying_) {
    write_copy_data(connection.out(), chunk_.view());
    write_copy_done(connection.out());
    connection.flush_soon();
    copying_ = false;
    set_timeout();
    for (;;) {
      auto answer = co_await conversation_.message();
      if (!answer) co_return std::unexpected(std::move(answer.error()));
      if (answer->type == 'E') take_error(*answer);
      if (answer->type == 'Z') break;
    }
  }
  if (error_) co_return std::unexpected(*error_);
  co_return co_await staging_->commit();
}

core::Task<Result<std::optional<std::vector<StagedFault>>>> Staging::find_duplicates(Transaction& transaction) {
  const Statement distinct = [this] {
    Statement statement = plan_.distinct;
    statement.id = unnamed_statement;
    return statement;
  }();
  auto keys = co_await transaction.execute(distinct, {});
  if (!keys) co_return std::unexpected(std::move(keys.error()));
  if (number_in(keys->rows.fields[0]) == rows_) co_return std::optional<std::vector<StagedFault>>{};
  Statement duplicates = plan_.duplicates;
  duplicates.id = unnamed_statement;
  auto rows = co_await transaction.execute(duplicates, {});
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  std::vector<StagedFault> faults;
  for (std::size_t i = 0; i < rows->rows.rows; ++i) {
    const auto row = rows->rows.row(i);
    faults.push_back({.line = number_in(row[0]),
                      .row = number_in(row[1]),
                      .column = {},
                      .reason = "has the same key as row " + std::to_string(number_in(row[2]))});
  }
  co_return std::optional(std::move(faults));
}

core::Task<Result<SetOutcome>> Staging::write(std::span<const Argument> arguments, const ApplyOptions& options) {
  Transaction transaction(pool_, conversation_, {.isolation = isolation_, .settings = settings_});
  set_timeout();
  if (options.deadline != never) conversation_.set_deadline(options.deadline);
  SetOutcome outcome;
  if (rows_ != 0) {
    auto duplicates = co_await find_duplicates(transaction);
    if (!duplicates) co_return std::unexpected(std::move(duplicates.error()));
    if (*duplicates) {
      outcome.faults = std::move(**duplicates);
      co_return outcome;
    }
  }
  std::vector<Argument> chosen;
  const auto run = [&](const Statement& planned) {
    chosen.clear();
    for (const Parameter& parameter : planned.parameters) {
      const auto at = std::ranges::find(plan_.parameters, parameter.name, &Parameter::name);
      chosen.push_back(arguments[static_cast<std::size_t>(at - plan_.parameters.begin())]);
    }
    Statement statement = planned;
    statement.id = unnamed_statement;
    return statement;
  };
  if (plan_.remove) {
    const Statement remove = run(*plan_.remove);
    auto removed = co_await transaction.execute(remove, chosen);
    if (!removed) co_return std::unexpected(std::move(removed.error()));
    outcome.deleted = removed->changes;
  }
  if (plan_.update && rows_ != 0) {
    const Statement update = run(*plan_.update);
    auto updated = co_await transaction.execute(update, chosen);
    if (!updated) co_return std::unexpected(std::move(updated.error()));
    outcome.updated = updated->changes;
  }
  if (rows_ != 0) {
    const Statement insert = run(plan_.insert);
    auto inserted = co_await transaction.execute(insert, chosen);
    if (!inserted) co_return std::unexpected(std::move(inserted.error()));
    outcome.inserted = inserted->changes;
  }
  outcome.unchanged = rows_ - std::min(rows_, outcome.updated + outcome.inserted);
  if (options.commit) {
    if (auto committed = co_await transaction.commit(); !committed) {
      co_return std::unexpected(std::move(committed.error()));
    }
  }
  co_return outcome;
}

core::Task<Result<void>> Staging::roll_back() {
  Connection& connection = conversation_.connection();
  write_query(connection.out(), "ROLLBACK");
  connection.expect_answer(conversation_);
  for (;;) {
    auto answer = co_await conversation_.message();
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    if (answer->type == 'Z') co_return Result<void>{};
  }
}

core::Task<Result<SetOutcome>> Staging::apply(std::span<const Argument> arguments, const ApplyOptions& options) {
  if (!error_) {
    if (auto begun = co_await begin(); !begun) co_return std::unexpected(std::move(begun.error()));
    if (auto ended = co_await end_copy(); !ended && !fault_) co_return std::unexpected(std::move(ended.error()));
  }
  if (fault_) {
    SetOutcome outcome;
    outcome.faults.push_back(std::move(*fault_));
    co_return outcome;
  }
  if (error_) co_return std::unexpected(*error_);
  core::BackOff back_off(pool_.reactor(), first_pause, longest_pause);
  for (std::uint32_t tries = 0;; ++tries) {
    auto outcome = co_await write(arguments, options);
    if (outcome || outcome.error().failure != Failure::conflict || tries == options.retries) co_return outcome;
    if (auto ended = co_await roll_back(); !ended) co_return std::unexpected(std::move(ended.error()));
    co_await back_off.wait();
  }
}

}  // namespace sluice::sql::postgres
