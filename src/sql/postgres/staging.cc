#include "sql/postgres/staging.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/back_off.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/types.h"
#include "sql/retries.h"
#include "sql/set/fault_text.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::size_t held_bytes = 1 << 20;      // of rows that wait for the transaction, behind a pooler
constexpr std::size_t unsent_bytes = 256 << 10;  // if more is unsent, add() waits
constexpr std::size_t most_runs = 128 << 10;     // of line numbers; errors in rows after the last run name no line
constexpr Duration server_patience = 60s;        // for each answer if there is no statement timeout
constexpr Duration first_pause = 2ms;
constexpr Duration longest_pause = 200ms;

Statement own_statement(std::string text) {
  Statement statement;
  statement.text = std::move(text);
  return statement;
}

Statement unnamed(Statement statement) {
  statement.id = {};
  return statement;
}

std::shared_ptr<const BrokenRule> rule_of(std::string_view constraint) {
  if (constraint.empty()) return nullptr;
  return std::make_shared<const BrokenRule>(
      BrokenRule{.constraint = std::string(constraint), .table = {}, .columns = {}, .parameter = 0});
}

std::uint64_t number_in(const Field& field) {
  std::uint64_t number = 0;
  std::from_chars(field.data, field.data + field.size, number);
  return number;
}

}  // namespace

Staging::Staging(Pool& pool, const SetPlan& plan, const TransactionOptions& options)
    : pool_(pool),
      plan_(plan),
      isolation_(options.isolation == Isolation::standard ? Isolation::serializable : options.isolation),
      settings_(options.settings.begin(), options.settings.end()),
      conversation_(pool, never),
      is_pooled_(!pool.options().prepared) {}

Staging::~Staging() {
  // The server waits for COPY data, and would ignore a cancel.
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
  if (!is_pooled_ || !has_all_rows_) {
    settings.push_back({"statement_timeout", "0"});  // a slow client must not run into the server's timeout
  }
  const TransactionOptions options{.isolation = is_pooled_ ? isolation_ : Isolation::standard, .settings = settings};
  staging_ = std::make_unique<Transaction>(pool_, conversation_, options);
  const Statement create = own_statement(plan_.create + (is_pooled_ ? " ON COMMIT DROP" : ""));
  auto created = co_await staging_->execute(create, {});
  if (!created) co_return std::unexpected(std::move(created.error()));
  Connection& connection = conversation_.connection();
  if (!is_pooled_) connection.make_temporary();
  write_query(connection.out(), plan_.load);
  conversation_.expect_answer();
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
    error_ = malformed_message();
    return;
  }
  ServerError error(*notice);
  error_ = conversation_.error_of(error);
  if (!is_of_a_row(error_->sqlstate)) return;
  const StagedPlace place = staged_place(notice->where, plan_.staged);
  if (place.line == 0) return;
  StagedFault fault;
  fault.column = place.column;
  fault.row = place.line - 1;
  fault.line = line_of(fault.row);
  fault.reason = refusal_text(error_->sqlstate, {});
  fault_ = std::move(fault);
}

void Staging::note_lines(std::uint64_t first_row, std::span<const std::uint64_t> lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::uint64_t row = first_row + i;
    if (!runs_.empty()) {
      Run& last = runs_.back();
      if (row == last.row + 1 && last.known_until == row) last.step = lines[i] - last.line;
      if (last.known_until == row && lines[i] == last.line + (row - last.row) * last.step) {
        last.known_until = row + 1;
        continue;
      }
    }
    if (runs_.size() < most_runs) runs_.push_back({.row = row, .known_until = row + 1, .line = lines[i], .step = 0});
  }
}

std::uint64_t Staging::line_of(std::uint64_t row) const {
  auto run = std::ranges::upper_bound(runs_, row, {}, &Run::row);
  if (run == runs_.begin()) return 0;
  --run;
  return row < run->known_until ? run->line + (row - run->row) * run->step : 0;
}

// The server reports an invalid row at once, and ignores the rest of the data.
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

// Adds the rows to chunk_.
void Staging::append(std::span<const StagedValue> values, std::span<const std::uint64_t> lines) {
  const std::size_t columns = plan_.staged.size();
  note_lines(rows_, lines);
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
  }
}

core::Task<Result<void>> Staging::add(std::span<const StagedValue> values, std::span<const std::uint64_t> lines) {
  if (is_refused()) co_return Result<void>{};
  append(values, lines);
  if (is_pooled_ && has_all_rows_ && chunk_.size() <= held_bytes) co_return Result<void>{};
  has_all_rows_ = false;
  if (auto begun = co_await begin(); !begun) co_return begun;
  Connection& connection = conversation_.connection();
  Buffer& out = connection.out();
  if (chunk_.size() >= chunk_bytes) {
    write_copy_data(out, chunk_.view());
    chunk_.clear();
  }
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
  if (!is_pooled_) co_return co_await staging_->commit();
  const Statement mark = own_statement("SAVEPOINT sluice_stage");
  auto marked = co_await staging_->execute(mark, {});
  if (!marked) co_return std::unexpected(std::move(marked.error()));
  co_return Result<void>{};
}

core::Task<Result<void>> Staging::find_duplicates(Transaction& transaction, SetOutcome& outcome) {
  const Statement distinct = unnamed(plan_.distinct);
  auto keys = co_await transaction.execute(distinct, {});
  if (!keys) co_return std::unexpected(std::move(keys.error()));
  if (number_in(keys->rows.fields[0]) == rows_) co_return Result<void>{};
  const Statement duplicates = unnamed(plan_.duplicates);
  auto rows = co_await transaction.execute(duplicates, {});
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  for (std::size_t i = 0; i < rows->rows.rows; ++i) {
    const auto row = rows->rows.row(i);
    outcome.faults.push_back({.line = number_in(row[0]),
                              .row = number_in(row[1]),
                              .column = {},
                              .reason = "has the same key as row " + std::to_string(number_in(row[2])),
                              .twin_line = number_in(row[3])});
  }
  co_return Result<void>{};
}

core::Task<Result<void>> Staging::make_functions(Transaction& transaction, bool drops) {
  const SetStep* const steps[] = {plan_.remove ? &*plan_.remove : nullptr, plan_.update ? &*plan_.update : nullptr,
                                  &plan_.insert};
  for (const SetStep* const step : steps) {
    if (step == nullptr || step->each.empty()) continue;
    const Statement statement = own_statement(drops ? step->drop : step->each);
    auto done = co_await transaction.execute(statement, {});
    if (!done) co_return std::unexpected(std::move(done.error()));
  }
  co_return Result<void>{};
}

core::Task<Result<Written>> Staging::run(Transaction& transaction, const Statement& planned,
                                         std::span<const Argument> arguments) {
  std::vector<Argument> chosen;
  for (const Parameter& parameter : planned.parameters) {
    const auto at = std::ranges::find(plan_.parameters, parameter.name, &Parameter::name);
    chosen.push_back(arguments[static_cast<std::size_t>(at - plan_.parameters.begin())]);
  }
  const Statement statement = unnamed(planned);
  auto written = co_await transaction.execute(statement, chosen);
  if (!written) co_return std::unexpected(renumbered(std::move(written.error()), planned, plan_));
  // An own statement's rows are counted by the query that runs it.
  if (planned.columns.size() == 1) written->changes = number_in(written->rows.fields[0]);
  co_return written;
}

core::Task<Result<void>> Staging::find_outside(Transaction& transaction, std::span<const Argument> arguments,
                                               SetOutcome& outcome) {
  auto rows = co_await run(transaction, *plan_.outside, arguments);
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  for (std::size_t i = 0; i < rows->rows.rows; ++i) {
    const auto row = rows->rows.row(i);
    outcome.faults.push_back(
        {.line = number_in(row[0]), .row = number_in(row[1]), .column = {}, .reason = outside_reason});
  }
  outcome.outside = !outcome.faults.empty();
  co_return Result<void>{};
}

core::Task<Result<std::uint64_t>> Staging::staged_rows_there(Transaction& transaction,
                                                             std::span<const Argument> arguments) {
  auto counts = co_await run(transaction, *plan_.counts, arguments);
  if (!counts) co_return std::unexpected(std::move(counts.error()));
  co_return number_in(counts->rows.fields[0]);
}

// If deletions cascade to staged rows, rolls back and updates first: the updated rows may then refer to rows that stay.
core::Task<Result<void>> Staging::remove_and_count(Transaction& transaction, std::span<const Argument> arguments,
                                                   SetOutcome& outcome) {
  if (!plan_.counts || rows_ == 0) co_return co_await remove(transaction, arguments, outcome);
  const auto before = co_await staged_rows_there(transaction, arguments);
  if (!before) co_return std::unexpected(before.error());
  for (const bool updates_first : {false, true}) {
    const Statement mark = own_statement(updates_first ? "ROLLBACK TO sluice_set" : "SAVEPOINT sluice_set");
    auto marked = co_await transaction.execute(mark, {});
    if (!marked) co_return std::unexpected(std::move(marked.error()));
    if (updates_first) {
      writing_ = Writing::first_update;
      auto updated = co_await run(transaction, *plan_.update, arguments);
      if (!updated) co_return std::unexpected(std::move(updated.error()));
      writing_ = Writing::other;
      outcome.updated = updated->changes;
    }
    outcome.deleted = 0;
    if (auto removed = co_await remove(transaction, arguments, outcome); !removed) co_return removed;
    const auto after = co_await staged_rows_there(transaction, arguments);
    if (!after) co_return std::unexpected(after.error());
    outcome.taken = *before - std::min(*before, *after);
    if (outcome.taken == 0 || !plan_.update) break;
  }
  co_return Result<void>{};
}

core::Task<Result<void>> Staging::remove(Transaction& transaction, std::span<const Argument> arguments,
                                         SetOutcome& outcome) {
  for (const auto* remove : {&plan_.remove, &plan_.remove_null}) {
    if (!*remove) continue;
    auto removed = co_await run(transaction, **remove, arguments);
    if (!removed) co_return std::unexpected(std::move(removed.error()));
    outcome.deleted += removed->changes;
  }
  co_return Result<void>{};
}

core::Task<Result<SetOutcome>> Staging::write(std::span<const Argument> arguments, const ApplyOptions& options) {
  Transaction own(pool_, conversation_, {.deadline = options.deadline, .isolation = isolation_, .settings = settings_});
  Transaction& transaction = is_pooled_ ? *staging_ : own;
  set_timeout();
  if (options.deadline != never) conversation_.set_deadline(options.deadline);
  writing_ = Writing::other;
  SetOutcome outcome;
  if (!plan_.type_check.empty()) {  // the rows' values were converted as the types were when the plan was made
    Statement check = own_statement(plan_.type_check);
    check.columns.push_back({"?column?", builtin_type(20), 20});
    auto checked = co_await transaction.execute(check, {});
    if (!checked && checked.error().sqlstate == "22012") {
      checked = std::unexpected(Error{Failure::statement, {}, std::string(composite_has_changed), 0});
    }
    if (!checked) co_return std::unexpected(std::move(checked.error()));
  }
  if (rows_ != 0) {
    auto found = co_await find_duplicates(transaction, outcome);
    if (found && outcome.faults.empty() && plan_.outside) {
      found = co_await find_outside(transaction, arguments, outcome);
    }
    if (!found) co_return std::unexpected(std::move(found.error()));
    if (!outcome.faults.empty()) co_return outcome;
  }
  if (auto made = co_await make_functions(transaction); !made) co_return std::unexpected(std::move(made.error()));
  if (auto removed = co_await remove_and_count(transaction, arguments, outcome); !removed) {
    co_return std::unexpected(std::move(removed.error()));
  }
  if (outcome.taken != 0) co_return outcome;
  if (rows_ != 0) writing_ = Writing::rows;
  if (plan_.update && rows_ != 0) {
    auto updated = co_await run(transaction, *plan_.update, arguments);
    if (!updated) co_return std::unexpected(std::move(updated.error()));
    outcome.updated += updated->changes;
  }
  if (rows_ != 0) {
    auto inserted = co_await run(transaction, plan_.insert, arguments);
    if (!inserted) co_return std::unexpected(std::move(inserted.error()));
    outcome.inserted = inserted->changes;
  }
  writing_ = Writing::other;
  outcome.unchanged = rows_ - std::min(rows_, outcome.updated + outcome.inserted);
  outcome.too_many_deleted = options.commit && !options.allow(outcome);
  if (options.commit && !outcome.too_many_deleted) {
    if (is_pooled_) {  // the session's next user may have functions with these names
      auto dropped = co_await make_functions(transaction, true);
      if (!dropped) co_return std::unexpected(std::move(dropped.error()));
    }
    if (auto committed = co_await transaction.commit(); !committed) {
      co_return std::unexpected(std::move(committed.error()));
    }
  }
  co_return outcome;
}

core::Task<Result<SetOutcome>> Staging::find_refused(const Error& refusal, std::span<const Argument> arguments,
                                                     const ApplyOptions& options) {
  Transaction own(pool_, conversation_, {.deadline = options.deadline, .isolation = isolation_, .settings = settings_});
  Transaction& transaction = is_pooled_ ? *staging_ : own;
  set_timeout();
  if (options.deadline != never) conversation_.set_deadline(options.deadline);
  SetOutcome outcome;
  if (auto made = co_await make_functions(transaction); !made) co_return std::unexpected(std::move(made.error()));
  if (writing_ == Writing::first_update) {
    const Statement set = own_statement(std::string(updates_alone));
    auto done = co_await transaction.execute(set, {});
    if (!done) co_return std::unexpected(std::move(done.error()));
  } else if (auto removed = co_await remove_and_count(transaction, arguments, outcome); !removed) {
    co_return std::unexpected(std::move(removed.error()));
  }
  for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
    const std::string name = setting_of(plan_.parameters[i].name);
    const std::string value = arguments[i].text ? "v" + std::string(*arguments[i].text) : "";
    const Argument setting[] = {{.text = name}, {.text = value}};
    const Statement set = unnamed(plan_.set_value);
    auto done = co_await transaction.execute(set, setting);
    if (!done) co_return std::unexpected(std::move(done.error()));
  }
  // Each one runs through the transaction, because its writes must be part of it and use its settings.
  for (const std::string& text : plan_.find_faults) {
    const Statement statement = own_statement(text);
    auto done = co_await transaction.execute(statement, {});
    if (!done) co_return std::unexpected(std::move(done.error()));
  }
  const Statement select = unnamed(plan_.faults);
  auto rows = co_await transaction.execute(select, {});
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  SetOutcome found;
  for (std::size_t i = 0; i < rows->rows.rows; ++i) {
    const auto row = rows->rows.row(i);
    found.faults.push_back({.line = number_in(row[0]),
                            .row = number_in(row[1]),
                            .column = std::string(row[4].view()),
                            .reason = refusal_text(row[2].view(), row[3].view()),
                            .rule = rule_of(row[3].view())});
  }
  found.refusal = std::make_shared<const Error>(refusal);
  co_return found;
}

core::Task<Result<void>> Staging::roll_back(std::string_view command) {
  Connection& connection = conversation_.connection();
  write_query(connection.out(), command);
  conversation_.expect_answer();
  const auto refused = co_await conversation_.read_answer([](const Message&) { return true; });
  if (!refused) co_return std::unexpected(refused.error());
  if (const auto& error = *refused) co_return std::unexpected(conversation_.error_of(*error));
  co_return Result<void>{};
}

core::Task<Result<SetOutcome>> Staging::apply(std::span<const Argument> arguments, const ApplyOptions& options) {
  core::BackOff back_off(pool_.reactor(), first_pause, longest_pause);
  bool collided = false;
  const bool may_retry = !is_pooled_ || has_all_rows_;
  Retries retries(may_retry ? options.retries : 0);
  for (bool first = true;; first = false) {
    if (!error_ && (first || is_pooled_)) {
      if (auto begun = co_await begin(); !begun) co_return std::unexpected(std::move(begun.error()));
      if (auto ended = co_await end_copy(); !ended && !fault_) co_return std::unexpected(std::move(ended.error()));
    }
    if (fault_) {
      SetOutcome outcome;
      outcome.faults.push_back(std::move(*fault_));
      if (error_->failure != Failure::bad_argument) outcome.refusal = std::make_shared<const Error>(*error_);
      co_return outcome;
    }
    if (error_) co_return std::unexpected(*error_);
    auto outcome = co_await write(arguments, options);
    if (!outcome && writing_ != Writing::other && is_of_a_row(outcome.error().sqlstate)) {
      // Another transaction may have inserted the row meanwhile; the retry then finds it.
      const bool may_be_new = outcome.error().sqlstate == "23505";
      if (may_be_new && retries.left() && !std::exchange(collided, true)) {
        outcome.error().failure = Failure::conflict;
      } else {
        auto ended = co_await roll_back(is_pooled_ ? "ROLLBACK TO sluice_stage" : "ROLLBACK");
        if (!ended) co_return std::unexpected(std::move(ended.error()));
        auto found = co_await find_refused(outcome.error(), arguments, options);
        if (found && !found->faults.empty()) co_return found;
        const bool in_the_way = found ? may_be_new : found.error().failure == Failure::conflict;
        // If no row is found and no other transaction can be the cause, the set is refused without naming one.
        if (!in_the_way) co_return outcome;
        outcome.error().failure = Failure::conflict;
      }
    }
    // The rows that were streamed into the transaction are gone with it.
    if (outcome || !may_retry || !retries.again(outcome.error())) co_return outcome;
    if (auto ended = co_await roll_back("ROLLBACK"); !ended) co_return std::unexpected(std::move(ended.error()));
    if (is_pooled_) staging_.reset();
    co_await back_off.wait();
  }
}

}  // namespace sluice::sql::postgres
