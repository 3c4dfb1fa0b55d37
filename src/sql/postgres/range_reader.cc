#include "sql/postgres/range_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "sql/postgres/messages.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/server_error.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::string_view begin_sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

// The snapshot is taken before the size is read, so all rows that it sees are in these blocks, or in the last range,
// which has no end. The query reads the catalog and does not use ::regclass, because the role may lack USAGE on the
// schema.
//
// A standby exports no snapshot: if too many subtransactions run, PostgreSQL exports it without the transactions in
// progress, and the importing session considers them finished (pgsql-hackers, July 2026: "Don't discard subxip when
// exporting a snapshot taken during recovery").
constexpr std::string_view share_sql =
    "SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_export_snapshot() END, "
    "pg_catalog.pg_relation_size(c.oid) / "
    "pg_catalog.current_setting('block_size')::pg_catalog.int8 "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = $2";

// The settings of each transaction. A plan is made for each range, so that the planner knows how small the range is.
// Without index scans, rows come in the table's order. Sluice enforces deadlines itself, because clients may be slow.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> own_settings = {{
    {"statement_timeout", "0"},
    {"plan_cache_mode", "force_custom_plan"},
    {"enable_indexscan", "off"},
    {"enable_indexonlyscan", "off"},
    {"max_parallel_workers_per_gather", "0"},
    {"synchronize_seqscans", "off"},
}};

std::vector<Setting> with_own(std::span<const Setting> settings) {
  std::vector<Setting> all;
  all.reserve(settings.size() + own_settings.size());
  for (const auto& [name, value] : own_settings) all.push_back({std::string(name), std::string(value)});
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

// Whether `id` looks like a snapshot's. It becomes part of a statement, because SET TRANSACTION takes no parameters.
bool is_snapshot(std::string_view id) {
  return !id.empty() && id.size() < 64 &&
         std::ranges::all_of(
             id,
             [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f') || c == '-';
             });
}

}  // namespace

ParallelRequest::ParallelRequest(const Options& options, const Statement& wanted, std::span<const Argument> given,
                                 std::span<const Setting> of_request)
    : statement(wanted), parallel(*wanted.parallel), settings(options, with_own(of_request)) {
  for (const Argument& argument : given) {
    arguments.push_back(argument.text ? std::optional<std::string>(*argument.text) : std::nullopt);
  }
}

std::string_view ParallelRequest::parameters(std::string_view from, std::string_view to) {
  std::size_t size = from.size() + to.size();
  for (const auto& argument : arguments) size += 4 + (argument ? argument->size() : 0);
  parameters_.resize(size);
  char* at = parameters_.data();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::optional<std::string_view> text = arguments[i];
    if (i == parallel.from) text = from;
    if (i == parallel.to) text = to;
    at = put_parameter(at, text);
  }
  return std::string_view(parameters_).substr(0, static_cast<std::size_t>(at - parameters_.data()));
}

RangeReader::RangeReader(Pool& pool, ParallelRequest& request, std::optional<std::string_view> snapshot,
                         Instant deadline)
    : request_(request),
      snapshot_(snapshot),
      conversation_(pool, request.statement, deadline, snapshot ? Query::Use::helper : Query::Use::stream) {}

void RangeReader::fail(State state, Error error) {
  state_ = state;
  error_ = std::move(error);
}

void RangeReader::fail_with_connection() {
  Error why = conversation_.connection().failure();
  why.failure = Failure::lost;
  fail(State::lost, std::move(why));
}

void RangeReader::advance() {
  if (state_ != State::starting) return;
  if (!begun_) {
    if (!conversation_.advance()) return;
    if (conversation_.failed()) {
      const bool unavailable = conversation_.error().failure == Failure::unavailable;
      fail(unavailable ? State::lost : State::failed, std::move(conversation_.error()));
      return;
    }
    begin();
  }
  Connection& connection = conversation_.connection();
  while (state_ == State::starting) {
    Message message;
    switch (connection.next_message(message)) {
      case Connection::Progress::ready:
        handle_start(message);
        break;
      case Connection::Progress::need_more:
        if (connection.receive() == Connection::Received::nothing) return;
        break;
      default:
        fail_with_connection();
    }
  }
}

void RangeReader::begin() {
  begun_ = true;
  Connection& connection = conversation_.connection();
  Buffer& out = connection.out();
  connection.begin_transaction(request_.statement.may_change_session);
  step_.emplace(connection, &request_.statement, request_.settings);
  step_->write_command(begin_sql);
  if (snapshot_) step_->write_command("SET TRANSACTION SNAPSHOT '" + *snapshot_ + "'");
  step_->write_settings();
  step_->write_statement(parameter_count(), request_.parameters("(0,0)", "(0,0)"));
  if (!snapshot_) {
    std::string names(8 + request_.parallel.schema.size() + request_.parallel.table.size(), '\0');
    put_parameter(put_parameter(names.data(), request_.parallel.schema), request_.parallel.table);
    write_command(out, share_sql, 2, names);
  }
  write_sync(out);
  conversation_.expect_answer();
}

// Earlier descriptions on this connection stay valid, because the table is locked.
void RangeReader::describe(const Message& message) {
  if (!step_->take_description(message)) fail(State::lost, malformed_message());
}

void RangeReader::handle_error(const Message& message) {
  if (refused_) return;
  const auto error = step_->take_error(message);
  if (!error) {
    fail(State::lost, malformed_message());
  } else if (error->at == ServerError::At::type_check) {
    refused_ = {Failure::statement, {}, std::string(composite_has_changed), 0};
  } else {
    refused_ = conversation_.error_of(*error);
  }
}

// Handles the answers to BEGIN, a helper's SET TRANSACTION, the settings, the statement, and the leader's share.
void RangeReader::handle_start(const Message& message) {
  switch (message.type) {
    case 'T':
    case 'n':
      describe(message);
      break;
    case 'D':
      if (!snapshot_ && step_->ended() == step_->statement_at() + 1) take_share(message.payload);
      break;
    case 'C':
    case 'I':
      step_->end_command();
      break;
    case 'E':
      handle_error(message);
      break;
    case 'Z':
      if (refused_) {
        fail(step_->is_stale() ? State::again : State::failed, std::move(*refused_));
      } else if (!step_->is_described()) {
        fail(State::again, {Failure::statement, {}, "the columns of the statement's result have changed", 0});
      } else if (!snapshot_ && !shared_) {
        fail(State::failed, {Failure::statement, {}, "the table that is read in parallel is not there any more", 0});
      } else {
        columns_ = step_->columns();
        state_ = State::reading;
      }
      break;
    default:
      break;  // ParseComplete, BindComplete, CloseComplete, ParameterDescription
  }
}

void RangeReader::take_share(std::string_view row) {
  Field fields[2];
  if (!cut_row(row, 2, fields) || fields[1].is_null() || (!fields[0].is_null() && !is_snapshot(fields[0].view()))) {
    fail(State::lost, malformed_message());
    return;
  }
  const std::string_view blocks = fields[1].view();
  if (std::from_chars(blocks.data(), blocks.data() + blocks.size(), share_.blocks).ec != std::errc{}) {
    fail(State::lost, malformed_message());
    return;
  }
  if (!fields[0].is_null()) share_.snapshot = fields[0].view();
  shared_ = true;
}

void RangeReader::ask(const BlockRanges::Range& range) {
  SLUICE_ASSERT(may_ask());
  step_->write_statement_again(parameter_count(), request_.parameters(range.from(), range.to()));
  write_sync(conversation_.connection().out());
  conversation_.expect_answer();
  ++asked_;
}

void RangeReader::read_ahead() {
  if (state_ != State::reading || asked_ == 0) return;
  Connection& connection = conversation_.connection();
  while (connection.buffered() < read_ahead_bytes) {
    if (connection.receive() != Connection::Received::bytes) return;  // take() reports an error
  }
}

RangeReader::Got RangeReader::take(Block& block) {
  if (state_ != State::reading) return state_ == State::starting ? Got::nothing : Got::failed;
  if (asked_ == 0) return Got::nothing;
  Connection& connection = conversation_.connection();
  for (;;) {
    Message message;
    switch (connection.next_rows(columns_, piece_, message)) {
      case Connection::Progress::ready: {
        if (piece_.rows != 0) {
          block = {columns_, piece_.fields, piece_.rows, false};
          return Got::rows;
        }
        Got got = Got::nothing;
        handle(message, got);
        if (got != Got::nothing) return got;
        break;
      }
      case Connection::Progress::need_more:
        if (connection.receive() == Connection::Received::nothing) return Got::nothing;
        break;
      case Connection::Progress::too_large:
        fail(State::failed, {Failure::statement, {}, "a row is longer than row_limit", 0});
        return Got::failed;
      default:
        fail_with_connection();
        return Got::failed;
    }
  }
}

void RangeReader::handle(const Message& message, Got& got) {
  switch (message.type) {
    case 'T':
    case 'n':
      describe(message);
      if (!step_->is_described() || step_->columns().data() != columns_.data()) {
        fail(State::failed, {Failure::statement, {}, "the columns of the statement's result have changed", 0});
        got = Got::failed;
      }
      break;
    case 'E':
      handle_error(message);
      break;
    case 'Z':
      got = refused_ ? Got::failed : Got::range_end;
      if (refused_) {
        fail(State::failed, std::move(*refused_));
      } else {
        --asked_;
      }
      break;
    default:
      break;
  }
}

}  // namespace sluice::sql::postgres
