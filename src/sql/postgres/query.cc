#include "sql/postgres/query.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sql/postgres/pool.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t small_bytes = 64 << 10;  // a result up to this size counts as small (Pool::was_small)
constexpr std::uint8_t most_descriptions = 4;  // limit for one request's column look-ups

Error no_columns() {
  return {Failure::statement, {}, "the statement's result has no columns, and had some when it was prepared", 0};
}

}  // namespace

Query::Query(Pool& pool, const Statement& statement, std::span<const Argument> arguments, const QueryOptions& options,
             Use use)
    : Candidate(use),
      pool_(pool),
      statement_(&statement),
      started_(pool.reactor().now()),
      first_deadline_(options.deadline),
      timer_(&Query::on_deadline, *this),
      release_(&Query::on_turn_end, *this),
      own_settings_(pool.options(), options.settings) {
  has_deadline_ = options.deadline != never;
  patience_ = has_deadline_ ? std::max<Duration>(first_deadline_ - started_, 1ms) : pool.statement_timeout();
  begin_wait(started_);

  std::size_t size = 0;
  for (const Argument& argument : arguments) size += 4 + (argument.text ? argument.text->size() : 0);
  char* at = make_parameters(size);
  for (const Argument& argument : arguments) at = put_parameter(at, argument.text);
}

char* Query::make_parameters(std::size_t size) {
  parameters_size_ = size;
  if (size <= parameters_.size()) return parameters_.data();
  large_parameters_ = std::make_unique_for_overwrite<char[]>(size);
  return large_parameters_.get();
}

void Query::begin_wait(Instant now) {
  wait_until_ = now + std::chrono::milliseconds(pool_.options().wait_ms);
  if (!has_deadline_ && patience_ != Duration::max()) first_deadline_ = wait_until_ + patience_;
}

Query::Query(Pool& pool, Instant deadline)
    : Candidate(Use::conversation),
      pool_(pool),
      started_(pool.reactor().now()),
      wait_until_(started_ + std::chrono::milliseconds(pool.options().wait_ms)),
      first_deadline_(deadline),
      timer_(&Query::on_deadline, *this),
      release_(&Query::on_turn_end, *this) {
  patience_ = deadline == never ? Duration::max() : std::max<Duration>(deadline - started_, 1ms);
  has_deadline_ = true;
}

Query::Query(Pool& pool, const Statement& statement, Instant deadline, Use use) : Query(pool, deadline) {
  statement_ = &statement;
  use_ = use;
}

Query::~Query() {
  if (stage_ == Stage::queued) pool_.leave_queue(*this);
  if (stage_ == Stage::describing) pool_.column_lists().leave(*this);
  leave_connection();
}

void Query::leave_connection() {
  Connection* const connection = std::exchange(connection_, nullptr);
  if (connection == nullptr) return;
  if (stage_ == Stage::in_flight) {
    connection->forget(*this);
  } else if (stage_ == Stage::answered) {
    connection->taken();
  } else {
    connection->release();
  }
}

void Query::fly(const Statement& statement, std::string_view parameters, const Settings& settings) {
  SLUICE_ASSERT(stage_ == Stage::fresh && use_ == Use::conversation);
  use_ = Use::write;
  statement_ = &statement;
  settings_ = &settings;
  std::ranges::copy(parameters, make_parameters(parameters.size()));
}

bool Query::can_write(const Connection& connection) const {
  return connection.can_write({statement_->id, settings_->role()});
}

Written Query::written() {
  Written written{.changes = changes_, .rows = block_, .owner = {}};
  if (block_.rows != 0) written.owner = std::make_shared<Kept>(std::move(kept_));
  return written;
}

Request Query::request() const {
  return {.statement = *statement_,
          .parameters = parameters(),
          .settings = *settings_,
          .deadline = first_deadline_,
          .has_transaction = has_transaction(),
          .may_share_sync = disturbed_ == Disturbed::never};
}

void Query::queued() {
  stage_ = Stage::queued;
  pool_.reactor().timers().schedule(timer_, std::min(wait_until_, first_deadline_));
}

void Query::place(Connection& connection) {
  connection_ = &connection;
  placed_at_ = pool_.reactor().now();
  pool_.reactor().timers().cancel(timer_);
  if (use_ == Use::shared) {
    stage_ = Stage::in_flight;
    ++pool_.counters().shared_requests;
    connection.send_shared(*this, request());
    if (has_deadline_) pool_.reactor().timers().schedule(timer_, first_deadline_);
    return;
  }
  if (is_write()) {
    if (can_write(connection)) {
      stage_ = Stage::in_flight;
      ++pool_.counters().shared_requests;
      connection.send_write(*this, request());
      const Duration patience = connection.patience();
      if (first_deadline_ == never && patience != Duration::max()) first_deadline_ = placed_at_ + patience;
      if (first_deadline_ != never) pool_.reactor().timers().schedule(timer_, first_deadline_);
      return;
    }
    use_ = Use::conversation;
  }
  stage_ = Stage::placed;
  connection.lease(*this, use_ == Use::exclusive);
  if (use_ == Use::exclusive) {
    // The wait for the connection does not count.
    if (!has_deadline_ && patience_ != Duration::max()) first_deadline_ = placed_at_ + patience_;
    ++pool_.counters().exclusive_requests;
    connection.send_exclusive(*this, request());
  }
}

bool Query::advance() {
  for (;;) {
    switch (stage_) {
      case Stage::fresh:
        if (statement_ != nullptr && pool_.column_lists().is_looking_up(statement_->id)) {
          stage_ = Stage::describing;
          pool_.column_lists().wait(*this, statement_->id);
          pool_.reactor().timers().schedule(timer_, first_deadline_);
          return false;
        }
        pool_.admit(*this);
        break;
      case Stage::queued:
      case Stage::in_flight:
      case Stage::describing:
        return false;
      case Stage::placed:
        if (is_conversation() || piece_ready_) return true;
        if (!scan(true)) return false;
        break;
      case Stage::answered:
      case Stage::failed:
      case Stage::finished:
        return true;
    }
  }
}

void Query::set_failure(Error error) {
  leave_connection();
  pool_.reactor().timers().cancel(timer_);
  stage_ = Stage::failed;
  error_ = std::move(error);
}

namespace {

// Whether the error is about a value. The server reports a malformed tsquery or jsonpath as a syntax error.
bool is_of_value(std::string_view routine) {
  constexpr std::array routines{std::string_view("makepol"), std::string_view("gettoken_query_standard"),
                                std::string_view("prssyntaxerror"), std::string_view("gettoken_tsvector"),
                                std::string_view("jsonpath_yyerror")};
  return std::ranges::find(routines, routine) != routines.end();
}

}  // namespace

Error Query::error_of(const ServerError& error) const {
  Error result{Failure::statement, error.sqlstate, error.message, error.position, error.headline};
  result.rule = error.rule;
  using At = ServerError::At;
  result.at_commit = error.at == At::commit || error.at == At::standby;
  const std::string_view state = error.sqlstate;
  const auto in_class = [state](std::string_view name) { return state.starts_with(name); };
  if (error.at == At::role && (in_class("22") || state == "42501")) {
    result.failure = Failure::not_allowed;
  } else if (state == "42601" && is_of_value(error.routine)) {
    result.failure = Failure::bad_argument;
  } else if (in_class("22") ||
             (error.at == At::bind && (state == "42804" || state == "42846" || state == "54000" || state == "54001"))) {
    result.failure = Failure::bad_argument;
  } else if (error.at == At::standby) {
    result.failure = Failure::lost;
  } else if (state == "57014") {
    // The server reports the same for its own timeout and for an administrator's cancel.
    const Instant now = pool_.reactor().now();
    const auto timeout = std::chrono::milliseconds(pool_.options().statement_timeout_ms);
    const bool by_timeout = timeout != 0ms && now - placed_at_ >= timeout - 5ms;
    if (by_timeout || now >= first_deadline_) result.failure = Failure::timed_out;
  } else if (means_outage(state)) {
    result.failure = Failure::unavailable;
  } else if (in_class("40")) {
    result.failure = Failure::conflict;
  }
  return result;
}

// One event may end all sessions, and the query may meet several of them. So only the loss of a session that was
// opened (at `opened`) after the first loss is final.
bool Query::again_after_loss(Instant opened) {
  const Instant now = pool_.reactor().now();
  if (!pool_.may_repeat() || now >= wait_until_ || opened >= first_loss_) return false;
  first_loss_ = std::min(first_loss_, now);
  ++pool_.counters().retries;
  start_over();
  return true;
}

// Each connection has its own plan, which may be stale.
bool Query::again_after_stale() {
  if (++reprepared_ > pool_.options().pool_size + 2) return false;
  ++pool_.counters().reprepared;
  start_over();
  return true;
}

// The columns are being looked up. The query waits for them if the statement may be sent again.
void Query::again_when_known() {
  if (pool_.may_repeat() && ++described_ <= most_descriptions) {
    start_over();
  } else {
    set_failure({Failure::statement, {}, "the columns of the statement's result have changed", 0});
  }
}

// The query gets the full wait for a connection again.
void Query::start_over() {
  leave_connection();
  pool_.reactor().timers().cancel(timer_);
  stage_ = Stage::fresh;
  begin_wait(pool_.reactor().now());
}

void Query::answer(const Block& rows, std::uint64_t changes) {
  pool_.reactor().timers().cancel(timer_);
  stage_ = Stage::answered;
  block_ = rows;
  changes_ = changes;
  if (!is_write()) wake();
}

// Copies the block out of the connection's buffer, which is about to be reused.
void Query::keep() {
  connection_ = nullptr;
  std::size_t size = 0;
  for (const Field& field : block_.fields) size += field.size;
  kept_.bytes = std::make_unique_for_overwrite<char[]>(size + 1);  // an empty value needs an address too
  kept_.fields.assign(block_.fields.begin(), block_.fields.end());
  char* at = kept_.bytes.get();
  for (Field& field : kept_.fields) {
    if (field.is_null()) continue;
    if (field.size != 0) std::memcpy(at, field.data, field.size);
    field.data = at;
    at += field.size;
  }
  block_.fields = kept_.fields;
  if (is_write()) wake();
}

// It is committed: the client must not be asked to try again.
void Query::fail_write(std::string_view why) { set_failure({Failure::statement, {}, std::string(why), 0}); }

void Query::refused(const ServerError& error) {
  connection_ = nullptr;
  set_failure(error_of(error));
  wake();
}

void Query::unusable() {
  connection_ = nullptr;
  is_write() ? fail_write("the statement is committed, and its row does not fit its columns")
             : set_failure(no_columns());
  wake();
}

void Query::again(Again why, const ServerError* error) {
  connection_ = nullptr;
  switch (why) {
    case Again::stale_plan:
      if (!again_after_stale()) {
        set_failure({Failure::statement, "0A000", "the statement's plan is stale again and again", 0});
      }
      break;
    case Again::unknown_columns:
    case Again::too_large:
      if (is_write()) {
        fail_write("the statement is committed, and its row cannot be read");
        break;
      }
      if (why == Again::unknown_columns) {
        again_when_known();
        break;
      }
      ++pool_.counters().overflows;
      pool_.was_large(*statement_, true);
      use_ = Use::exclusive;
      start_over();
      break;
    case Again::skipped:
      ++pool_.counters().skipped;
      disturbed_ = std::max(disturbed_, Disturbed::skipped);
      start_over();
      break;
    case Again::cancelled:
      if (disturbed_ == Disturbed::cancelled || pool_.reactor().now() >= first_deadline_) {
        set_failure(error_of(*error));
        break;
      }
      // In a batch it is unknown which of the requests a cancel would hit.
      disturbed_ = Disturbed::cancelled;
      ++pool_.counters().cancel_hits;
      start_over();
      break;
  }
  wake();
}

void Query::columns_known(const Result<void>& outcome) {
  stage_ = Stage::fresh;
  if (outcome) {
    start_over();
  } else {
    set_failure(outcome.error());
  }
  wake();
}

void Query::lost(const Error& why, Instant opened) {
  connection_ = nullptr;
  if (is_write()) {
    set_failure({Failure::lost, why.sqlstate, why.message, 0});
  } else if (!again_after_loss(opened)) {
    set_failure({Failure::unavailable, why.sqlstate, why.message, 0});
  }
  wake();
}

void Query::set_deadline(Instant deadline) {
  pool_.reactor().timers().cancel(timer_);
  first_deadline_ = deadline;
  timed_out_ = false;
}

// Processes what has arrived. Returns true if a piece is ready, the query has failed, or it starts over (only with
// `first`, while no rows have been returned).
bool Query::scan(bool first) {
  for (;;) {
    switch (connection_->scan(piece_)) {
      case Connection::Progress::need_more:
        switch (connection_->receive()) {
          case Connection::Received::bytes:
          case Connection::Received::broken:
            continue;
          case Connection::Received::nothing:
            break;
        }
        if (timed_out_) {
          set_failure({Failure::timed_out, {}, "the server did not answer in time", 0});
          return true;
        }
        wait_for_server();
        return false;
      case Connection::Progress::too_large:
        set_failure({Failure::statement, {}, "a row is longer than row_limit", 0});
        return true;
      case Connection::Progress::broken: {
        const Error why = connection_->failure();
        if (first && again_after_loss(connection_->open_since())) return true;
        set_failure({Failure::lost, why.sqlstate, why.message, 0});
        return true;
      }
      case Connection::Progress::unknown:
        again_when_known();
        return true;
      case Connection::Progress::ready:
        break;
    }
    // If an error follows rows that the caller has not seen yet, the error is the answer.
    if (first && piece_.failing && !piece_.finished) continue;
    pool_.reactor().timers().cancel(timer_);
    timed_out_ = false;
    bytes_ += piece_.bytes;
    rows_ += piece_.rows;
    if (piece_.finished && (first || piece_.rows == 0)) {
      if (piece_.stale && first && again_after_stale()) return true;
      if (piece_.error || piece_.unusable) {
        fail_by_piece();
        return true;
      }
    }
    piece_ready_ = true;
    return true;
  }
}

void Query::fail_by_piece() {
  const std::unique_ptr<ServerError> error = std::move(piece_.error);
  set_failure(error ? error_of(*error) : no_columns());
}

void Query::wait_for_server() {
  const Instant now = pool_.reactor().now();
  Instant until = first_deadline_;
  if (streaming_) until = patience_ == Duration::max() ? never : now + patience_;
  if (timer_.armed() && !streaming_) return;
  pool_.reactor().timers().schedule(timer_, until);
}

Result<Block> Query::take_piece() {
  if (stage_ == Stage::failed) return std::unexpected(std::move(error_));
  piece_ready_ = false;
  streaming_ = true;
  if (piece_.finished && (piece_.error || piece_.unusable)) {
    // Return the rows before the error now, and the error at the next call.
    if (piece_.rows != 0) return Block{piece_.columns, piece_.fields, std::exchange(piece_.rows, 0), false};
    fail_by_piece();
    return std::unexpected(std::move(error_));
  }
  const Block block{piece_.columns, piece_.fields, piece_.rows, piece_.finished};
  if (piece_.finished) {
    if (statement_->id.is_named()) {
      const bool quick = pool_.reactor().now() - placed_at_ < std::chrono::milliseconds(pool_.options().slow_ms);
      if (quick && bytes_ <= small_bytes && rows_ < Connection::shared_rows) {
        pool_.was_small(*statement_);
      } else {
        pool_.was_large(*statement_, false);
      }
    }
    // The views are valid until the caller suspends; after that, other requests may use the connection.
    pool_.reactor().at_turn_end(release_);
  }
  return block;
}

core::Async<Result<Block>> Query::next() {
  if (stage_ == Stage::answered) {
    leave_connection();
    stage_ = Stage::finished;
    return Result<Block>(block_);
  }
  if (stage_ == Stage::failed) return Result<Block>(std::unexpected(std::move(error_)));
  SLUICE_ASSERT(stage_ == Stage::placed);
  const bool error_waits = piece_.finished && (piece_.error || piece_.unusable);
  if (piece_ready_ || error_waits || scan(false)) return take_piece();
  return next_slow();
}

core::Task<Result<Block>> Query::next_slow() {
  do {
    co_await progress();
  } while (!scan(false));
  co_return take_piece();
}

core::Task<Result<Message>> Query::message() {
  for (;;) {
    Message message;
    switch (connection_->next_message(message)) {
      case Connection::Progress::ready:
        co_return message;
      case Connection::Progress::need_more:
        break;
      case Connection::Progress::too_large:
      case Connection::Progress::unknown:
      case Connection::Progress::broken: {
        Error why = connection_->failure();
        why.failure = Failure::lost;
        co_return std::unexpected(std::move(why));
      }
    }
    if (connection_->receive() != Connection::Received::nothing) continue;
    if (timed_out_) co_return std::unexpected(Error{Failure::timed_out, {}, "the server did not answer in time", 0});
    wait_for_server();
    co_await progress();
  }
}

void Query::on_deadline(core::Timer& timer) noexcept {
  Query& self = static_cast<Deadline&>(timer).owner;
  switch (self.stage_) {
    case Stage::queued: {
      self.pool_.leave_queue(self);
      if (self.use_ != Use::helper) ++self.pool_.counters().unavailable;
      self.set_failure(self.pool_.unavailable());
      break;
    }
    case Stage::describing:
      self.pool_.column_lists().leave(self);
      [[fallthrough]];
    case Stage::in_flight:
      self.set_failure({Failure::timed_out, {}, "the server did not answer in time", 0});
      break;
    default:
      self.timed_out_ = true;
      break;
  }
  self.wake();
}

void Query::on_turn_end(core::TurnHook& hook) noexcept {
  Query& self = static_cast<Hook&>(hook).owner;
  if (self.stage_ != Stage::placed) return;
  self.leave_connection();
  self.stage_ = Stage::finished;
}

}  // namespace sluice::sql::postgres
