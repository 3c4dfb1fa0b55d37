#include "sql/postgres/transaction.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/buffer.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/session_reset.h"
#include "sql/postgres/step.h"

namespace sluice::sql::postgres {
namespace {

std::string begin_of(const TransactionOptions& options) {
  // Not READ WRITE, which would override a server, database or role that is read-only by default.
  const std::string access = options.reads_only ? " READ ONLY" : "";
  switch (options.isolation) {
    case Isolation::standard:
      break;
    case Isolation::read_committed:
      return "BEGIN ISOLATION LEVEL READ COMMITTED" + access;
    case Isolation::repeatable_read:
      return "BEGIN ISOLATION LEVEL REPEATABLE READ" + access;
    case Isolation::serializable:
      return "BEGIN ISOLATION LEVEL SERIALIZABLE" + access;
  }
  return "BEGIN" + access;
}

// Whether a transaction that writes was refused because the server is a standby, or read-only by default. A standby
// refuses a serializable transaction at its BEGIN.
bool is_read_only(const ServerError& error, bool at_begin) {
  return error.sqlstate == "25006" || (at_begin && error.sqlstate == "0A000");
}

// The deadline replaces the session's statement_timeout if it is later, or if the server has to stop the statement
// because Sluice does not cancel one that writes.
Settings settings_until(const Pool& pool, Instant deadline, bool writes, std::span<const Setting> settings) {
  if (deadline == never || (!writes && !pool.server_stops_before(deadline))) return {pool.options(), settings};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - pool.reactor().now() + Connection::grace);
  std::vector<Setting> all = {{"statement_timeout", std::to_string(std::max(left, 1ms).count())}};
  all.insert(all.end(), settings.begin(), settings.end());
  return {pool.options(), all};
}

// After the statement's type check has failed. The types of columns are being looked up, so the transaction may be
// retried. Values of parameters would be converted as before.
Error types_changed(bool of_parameters) {
  Error error{of_parameters ? Failure::statement : Failure::conflict, {}, std::string(composite_has_changed), 0};
  error.of_plan = true;
  return error;
}

}  // namespace

// The rows of one statement, copied out of the connection's buffer.
class Transaction::Rows {
 public:
  // Adds a DataRow: a 16-bit count, then each value after its 32-bit length. Returns false if the rows would exceed
  // `most` bytes.
  [[nodiscard]] bool add(std::string_view row, std::size_t most) {
    const std::size_t columns = row.size() < 2 ? 0
                                               : static_cast<std::size_t>(static_cast<unsigned char>(row[0])) << 8 |
                                                     static_cast<unsigned char>(row[1]);
    size_ += row.size() - std::min(row.size(), 2 + 3 * columns);
    if (size_ > most) return false;
    bytes_.append(row);
    ends_.push_back(bytes_.size());
    return true;
  }
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  // Returns nullopt if the rows do not have this number of columns.
  [[nodiscard]] std::optional<std::span<const Field>> cut(std::size_t columns) {
    fields_.resize(ends_.size() * columns);
    std::size_t begin = 0;
    Field* into = fields_.data();
    for (const std::size_t end : ends_) {
      if (!cut_row(bytes_.view().substr(begin, end - begin), columns, into)) return std::nullopt;
      into += columns;
      begin = end;
    }
    return fields_;
  }
  [[nodiscard]] std::size_t count() const { return ends_.size(); }

 private:
  std::size_t size_ = 0;
  Buffer bytes_;
  std::vector<std::size_t> ends_;
  std::vector<Field> fields_;
};

Transaction::Transaction(Pool& pool, const TransactionOptions& options)
    : Transaction(pool, options, begin_of(options), true) {}

// A pooler may give each transaction another session, and resets sessions itself.
Transaction::Transaction(Pool& pool, const TransactionOptions& options, std::string begin, bool writes)
    : pool_(pool),
      own_(std::in_place, pool, options.deadline),
      conversation_(*own_),
      begin_(std::move(begin)),
      deadline_(options.deadline),
      settings_(settings_until(pool, deadline_, writes, options.settings)),
      writes_(writes && !options.reads_only),
      must_do_(options.must_do),
      result_bytes_(options.result_bytes),
      reset_(writes && pool.options().prepared ? Reset::in_flight : Reset::never) {}

Transaction::Transaction(Pool& pool, Query& conversation, const TransactionOptions& options)
    : pool_(pool),
      conversation_(conversation),
      begin_(begin_of(options)),
      deadline_(options.deadline),
      settings_(settings_until(pool, deadline_, !options.reads_only, options.settings)),
      writes_(!options.reads_only),
      must_do_(options.must_do),
      result_bytes_(options.result_bytes),
      reset_(pool.options().prepared ? Reset::at_release : Reset::never) {}

Transaction::Flight Transaction::flight(const Statement* statement, std::span<const Argument> arguments, bool commits) {
  Flight flight{.statement = statement, .parameters = {}, .count = 0, .commits = commits};
  if (statement == nullptr) return flight;
  SLUICE_ASSERT(arguments.size() == statement->parameters.size());
  std::size_t size = 0;
  for (const Argument& argument : arguments) size += 4 + (argument.text ? argument.text->size() : 0);
  flight.parameters.resize(size);
  char* at = flight.parameters.data();
  for (const Argument& argument : arguments) at = put_parameter(at, argument.text);
  flight.count = static_cast<std::uint16_t>(arguments.size());
  return flight;
}

core::Task<Result<Written>> Transaction::execute(const Statement& statement, std::span<const Argument> arguments) {
  return run(flight(&statement, arguments, false));
}

core::Task<Result<Written>> Transaction::finish(const Statement& statement, std::span<const Argument> arguments,
                                                std::size_t most_rows) {
  return run_last(flight(&statement, arguments, false), most_rows);
}

bool Transaction::may_fly(const Statement& statement) const {
  return own_ && begin_ == "BEGIN" && statement.may_fly && statement.type_check.empty() && !must_do_ &&
         reset_ == Reset::in_flight && !pool_.is_slow(statement);
}

core::Task<Result<Written>> Transaction::run_last(Flight flight, std::size_t most_rows) {
  const Statement& statement = *flight.statement;
  if (may_fly(statement)) {
    conversation_.fly(statement, flight.parameters, settings_);
  }
  if (!begin_.empty()) {
    while (!conversation_.advance()) co_await conversation_.progress();
    if (conversation_.failed()) co_return std::unexpected(unavailable(std::move(conversation_.error())));
    if (conversation_.has_flown()) co_return landed(most_rows);
  }
  const Instant began = pool_.reactor().now();
  const bool has_columns = !statement.columns.empty();
  const bool commits = !must_do_ && !has_columns;
  flight.commits = commits;
  auto written = co_await run(std::move(flight));
  if (statement.may_fly) pool_.has_taken(statement, pool_.reactor().now() - began);
  if (!written || commits) co_return written;
  // The commit is sent after the rows have arrived: they may be too many or too long, or have other columns than
  // before.
  if (written->rows.rows > most_rows) {
    co_return std::unexpected(Error{Failure::statement, {}, "the statement returns more than one row", 0});
  }
  if (must_do_ && written->nothing(has_columns)) co_return written;
  if (auto committed = co_await commit(); !committed) co_return std::unexpected(std::move(committed.error()));
  co_return written;
}

Result<Written> Transaction::landed(std::size_t most_rows) {
  begin_.clear();
  Written written = conversation_.written();
  if (written.rows.rows > most_rows) {
    return std::unexpected(
        Error{Failure::statement, {}, "the statement is committed, and returns more than one row", 0});
  }
  return written;
}

// The server is a standby, or read-only by default.
Error Transaction::unavailable(Error error) {
  if (writes_ && error.sqlstate == "25006") {
    error.failure = Failure::unavailable;
    pool_.give_up_sessions();
  }
  return error;
}

core::Task<Result<void>> Transaction::commit() {
  if (!begin_.empty()) co_return Result<void>{};
  auto done = co_await run(flight(nullptr, {}, true));
  if (!done) co_return std::unexpected(std::move(done.error()));
  co_return Result<void>{};
}

void Transaction::renew(std::span<const Setting> settings, bool reads) {
  settings_ = settings_until(pool_, deadline_, writes_, settings);
  renews_ = begin_.empty();
  reads_ = reads;
}

// The messages of a flight, up to its Sync, and what has come of them so far.
struct Transaction::Answer {
  Answer(Connection& connection, const Flight& flight, const Settings& settings, bool resets)
      : statement(flight.statement), step(connection, flight.statement, settings), resets(resets && flight.commits) {}

  // The last command of the reset.
  [[nodiscard]] std::size_t last() const {
    return step.statement_at() + (statement != nullptr ? 1 : 0) + reset_commands;
  }

  const Statement* const statement;
  Step step;
  const bool resets;
  bool begins = false;
  bool reads = false;
  std::shared_ptr<Rows> rows = std::make_shared<Rows>();
  Written written;
  std::optional<Error> refused;
};

core::Task<Result<Written>> Transaction::run(Flight flight) {
  if (!begin_.empty()) {
    while (!conversation_.advance()) co_await conversation_.progress();
    if (conversation_.failed()) co_return std::unexpected(std::move(conversation_.error()));
  }
  Answer answer(conversation_.connection(), flight, settings_, reset_ == Reset::in_flight);
  write(flight, answer);
  for (;;) {
    auto message = co_await conversation_.message();
    if (!message) {
      // It is unknown what the server has executed.
      if (message.error().failure == Failure::unavailable) message.error().failure = Failure::lost;
      co_return std::unexpected(std::move(message.error()));
    }
    if (message->type == 'Z') co_return finish(answer);
    if (!take(*message, answer)) co_return std::unexpected(malformed_message());
  }
}

void Transaction::write(const Flight& flight, Answer& answer) {
  Connection& connection = conversation_.connection();
  Step& step = answer.step;
  answer.begins = !begin_.empty();
  if (answer.begins) {
    using Access = Connection::Access;
    connection.begin_transaction(reset_ != Reset::never, writes_ ? Access::server_default : Access::unknown);
    step.write_command(begin_);
    begin_.clear();
  } else if (renews_) {
    write_renewal(connection.out());
    step.add_commands(renewal_commands);
  }
  if (std::exchange(renews_, false) || answer.begins) step.write_settings();
  // A reading statement runs in a subtransaction, because a transaction that was made read-only stays read-only.
  answer.reads = std::exchange(reads_, false);
  if (answer.reads) {
    SLUICE_ASSERT(!flight.commits);
    step.write_command("SAVEPOINT sluice");
    step.write_command("SET TRANSACTION READ ONLY");
  }
  step.write_statement(flight.count, flight.parameters);
  if (answer.reads) write_command(connection.out(), "RELEASE sluice");
  if (flight.commits) write_command(connection.out(), "COMMIT");
  if (answer.resets) connection.write_reset();
  write_sync(connection.out());
  conversation_.expect_answer();
  if (const Duration patience = connection.patience(); own_ && deadline_ == never && patience != Duration::max()) {
    conversation_.set_deadline(pool_.reactor().now() + patience);
  }
}

// Returns false if the message is malformed.
bool Transaction::take(const Message& message, Answer& answer) {
  Step& step = answer.step;
  const bool is_of_statement = answer.statement != nullptr && step.ended() == step.statement_at();
  switch (message.type) {
    case 'T':
    case 'n':
      return step.take_description(message);
    case 'D':
      if (!is_of_statement) break;  // a row of set_config()
      if (!answer.refused && !answer.rows->add(message.payload, result_bytes_)) {
        answer.refused = {
            Failure::too_large, {}, "the rows are longer than " + std::to_string(result_bytes_) + " bytes", 0};
      }
      break;
    case 'C':
    case 'I':
      if (answer.resets && step.ended() == answer.last()) conversation_.connection().was_reset();
      if (is_of_statement) answer.written.changes = changes_of(message.payload);
      step.end_command();
      // In a failed transaction, COMMIT acts as ROLLBACK.
      if (step.ended() == step.statement_at() + 2 && message.payload.starts_with("ROLLBACK") && !answer.refused) {
        answer.refused = {Failure::statement, {}, "the transaction was rolled back", 0};
      }
      break;
    case 'N':
      if (const auto error = ServerError::if_unreplicated(message)) answer.refused = conversation_.error_of(*error);
      break;
    case 'E': {
      const auto error = step.take_error(message);
      if (error && !answer.refused) refuse(*error, answer);
      return error.has_value();
    }
    default:
      break;  // ParseComplete, BindComplete, CloseComplete, ParameterDescription
  }
  return true;
}

void Transaction::refuse(const ServerError& error, Answer& answer) {
  if (error.at == ServerError::At::type_check) {
    answer.refused = types_changed(answer.statement->has_composite_parameters);
    return;
  }
  Error refused = conversation_.error_of(error);
  refused.at_commit = answer.statement == nullptr || answer.step.ended() > answer.step.statement_at();
  if (answer.step.is_stale()) {
    refused.failure = Failure::conflict;
    refused.of_plan = true;
  }
  if (writes_ && !answer.reads && is_read_only(error, answer.begins && answer.step.ended() == 0)) {
    refused.failure = Failure::unavailable;
    pool_.give_up_sessions();
  }
  answer.refused = std::move(refused);
}

Result<Written> Transaction::finish(Answer& answer) {
  if (answer.refused) return std::unexpected(std::move(*answer.refused));
  if (answer.statement == nullptr) return std::move(answer.written);
  if (!answer.step.is_described()) {
    // The columns' types are being looked up, so the transaction may be retried.
    Error changed{Failure::conflict, {}, "the columns of the statement's result have changed", 0};
    changed.of_plan = true;
    return std::unexpected(std::move(changed));
  }
  Block& block = answer.written.rows;
  block.columns = answer.step.columns();
  const auto fields = answer.rows->cut(block.columns.size());
  if (!fields) return std::unexpected(malformed_message());
  block.fields = *fields;
  block.rows = answer.rows->count();
  block.last = true;
  answer.written.owner = std::move(answer.rows);
  return std::move(answer.written);
}

}  // namespace sluice::sql::postgres
