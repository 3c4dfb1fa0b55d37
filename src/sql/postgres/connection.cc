#include "sql/postgres/connection.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <new>
#include <optional>

#include "sql/postgres/session_reset.h"
#include "sql/postgres/session_start.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t kept_capacity = 512 << 10;  // a larger send buffer is released
constexpr Duration drain_patience = 2s;           // limit for a cancelled answer to end
constexpr std::size_t most_role_plans = 512;      // about 20 KB each in the server's process

}  // namespace

Connection::Connection(Sessions& pool, std::size_t index)
    : pool_(pool),
      index_(index),
      slow_(std::chrono::milliseconds(pool.options().slow_ms)),
      stream_(pool.reactor()),
      lull_(stream_.handle()),
      reader_(&Connection::on_readable, *this),
      writer_(&Connection::on_writable, *this),
      watchdog_(&Connection::on_timer, *this),
      hook_(&Connection::on_turn_end, *this),
      cancel_(pool, *this),
      plans_(pool.column_lists(), pool.options().prepared, std::max(most_role_plans, 2 * pool.options().pipeline)),
      flight_(std::bit_ceil(pool.options().pipeline + 8)) {}

Connection::~Connection() {
  stream_.handle().reader = nullptr;
  stream_.handle().writer = nullptr;
  stream_.say_goodbye();
}

// Waits for an event that run() must handle: bytes, a watchdog timer, or the end.
struct Connection::Event {
  Connection& connection;
  explicit Event(Connection& owner) : connection(owner) {}
  Event(const Event&) = delete;
  ~Event() { connection.runner_ = nullptr; }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> runner) noexcept { connection.runner_ = runner; }
  void await_resume() const noexcept {}
};

// The states follow each other in their order; `off` follows `broken`, and an attempt to open may fail.
void Connection::set_state(State state) {
  SLUICE_ASSERT(state > state_ || state == State::off);
  state_ = state;
}

core::Task<void> Connection::run(Role role) {
  set_state(State::opening);
  condition_.begin(role);
  given_up_ = false;
  opening_since_ = pool_.reactor().now();
  SessionStart start(pool_.options(), pool_.tls(), stream_, inbox_.bytes());
  const bool opened = co_await start.run(role == Role::shared ? pool_.options().statement_timeout_ms : 0);
  failure_ = std::move(start.failure());
  open_since_ = pool_.reactor().now();
  if (opened) {
    set_state(State::ready);
    cancel_.begin(start.address(), start.key(), encrypted());
    idle_since_ = open_since_;
    stream_.handle().reader = &reader_;
    pool_.opened();
    watch(pool_.reactor().now() + 1s);
    while (state_ == State::ready || leased_ != nullptr) {
      if (leased_ == nullptr) pump();
      if (state_ != State::ready && leased_ == nullptr) break;
      co_await Event(*this);
    }
  }
  const bool configuration = !opened && (failure_.sqlstate.starts_with("28") || failure_.sqlstate == "3D000");
  close();
  set_state(State::off);
  pool_.closed(opened, pool_.reactor().now() - open_since_, configuration, failure_);
}

void Connection::close() {
  pool_.reactor().end_lull(lull_);
  if (stream_.open()) {
    if (state_ == State::ready || state_ == State::broken) {
      stream_.handle().reader = nullptr;
      stream_.handle().writer = nullptr;
      stream_.say_goodbye();
    }
    stream_.close();
  }
  pool_.reactor().timers().cancel(watchdog_);
  // Before the queries learn that their answers are lost, because they may retry at once.
  if (state_ != State::broken) set_state(State::broken);
  inbox_.release();
  out_.release();
  drain_deadline_ = never;
  skipping_ = lease_.wakes_when_sent = serves_writes_ = false;
  batch_ = {};
  condition_.begin(role());
  cancel_.end();
  plans_.clear();
  // The waiting queries may retry at once. They use another connection, because this one is not ready.
  while (flight_size_ != 0) {
    answer_ = {};  // one that learns of its loss may destroy the next, which is then first
    const InFlight entry = pop();
    if (entry.exchange != nullptr) entry.exchange->lost(failure_, open_since_);
  }
  answer_ = {};
}

void Connection::push(const InFlight& entry) {
  SLUICE_ASSERT(flight_size_ < flight_.size());
  if (flight_size_ == 0) {
    begin_foremost();
    watch(foremost_since_ + 1s);
  }
  flight_[(flight_first_ + flight_size_++) & (flight_.size() - 1)] = entry;
}

void Connection::begin_foremost() {
  foremost_since_ = pool_.reactor().now();
  cancel_due_ = foremost_since_ + slow_;
}

Connection::InFlight Connection::pop() {
  const InFlight entry = flight_[flight_first_];
  flight_first_ = (flight_first_ + 1) & (flight_.size() - 1);
  --flight_size_;
  begin_foremost();
  cancel_.passed();
  if (flight_size_ != 0) cancel_abandoned();
  return entry;
}

void Connection::set_role(Role role) {
  if (!condition_.set_role(role)) return;
  if (!pool_.options().prepared || pool_.options().statement_timeout_ms == 0) return;
  const std::uint32_t timeout = role == Role::shared ? pool_.options().statement_timeout_ms : 0;
  push_setting("SET statement_timeout = " + std::to_string(timeout));
}

void Connection::set_access(Access access) {
  if (!pool_.may_repeat() || !condition_.set_access(access)) return;
  push_setting(access == Access::reading ? "SET default_transaction_read_only = on"
                                         : "SET default_transaction_read_only TO DEFAULT");
}

void Connection::push_setting(std::string_view sql) {
  write_query(out_, sql);
  push({.kind = InFlight::Kind::setting});
}

void Connection::begin_transaction(bool changes_session, Access access) {
  if (access != Access::unknown) set_access(access);
  condition_.begin_transaction(changes_session);
}

void Connection::give_up(Instant limit) {
  if (state_ != State::ready || open_since_ >= limit) return;
  given_up_ = true;
  watch(pool_.reactor().now());
}

void Connection::write_statement(InFlight::Kind kind, Exchange& exchange, const Request& request, bool shared,
                                 std::uint32_t row_limit) {
  const Statement& statement = request.statement;
  const bool resets = statement.may_change_session;
  InFlight entry{.kind = kind,
                 .exchange = &exchange,
                 .statement = &statement,
                 .plan = {statement.id, request.settings.role()},
                 .sets_role = request.settings.has_role(),
                 .deadline = request.deadline};
  try {
    plans_.make_room(out_, statement, request.settings, request.parameters);
  } catch (const std::bad_alloc&) {
    push(entry);
    break_off("no memory");
    return;
  }
  entry.checks_types = !statement.type_check.empty();
  const bool alone = !shared || !request.may_share_sync || pool_.options().batch == 1 || resets || entry.checks_types ||
                     !request.settings.empty();
  if (alone) end_batch();
  if (request.has_transaction) {
    write_command(out_, "BEGIN READ ONLY");
    entry.before = entry.after = 1;
    begin_transaction(resets);
  }
  plans_.write_settings(out_, request.settings);
  entry.before += request.settings.commands();
  entry.before += plans_.write_type_check(out_, statement, entry.plan.role);
  const auto count = static_cast<std::uint16_t>(statement.parameters.size());
  entry.prepares =
      plans_.write_bind(out_, statement, entry.plan.role, count, request.parameters, PlanCache::For::query);
  write_execute(out_, row_limit);
  if (request.has_transaction) write_command(out_, "COMMIT");
  if (resets) {
    write_reset();
    entry.after += reset_commands;
  }
  entry.synced = alone;
  push(entry);
  if (alone) {
    write_sync(out_);
  } else if (++batch_.size == pool_.options().batch) {
    end_batch();
  }
  flush_soon();
}

// A batch is never sent without its Sync: flush() calls this first.
void Connection::end_batch() {
  if (batch_.size == 0) return;
  batch_.size = 0;
  write_sync(out_);
  flight_[(flight_first_ + flight_size_ - 1) & (flight_.size() - 1)].synced = true;
}

void Connection::send_shared(Exchange& exchange, const Request& request) {
  SLUICE_ASSERT(leased_ == nullptr && state_ == State::ready);
  end_writes();
  set_role(Role::shared);
  set_access(Access::reading);
  // Asks for one row more than the caller can use, or than is kept: that row shows that there are too many.
  write_statement(InFlight::Kind::query, exchange, request, true, request.statement.one_row ? 2 : shared_rows);
}

void Connection::send_write(Exchange& exchange, const Request& request) {
  SLUICE_ASSERT(leased_ == nullptr && state_ == State::ready);
  serves_writes_ = true;
  // The write before may have changed the session. If no write follows for a while, look_around() has it reset. The
  // reset has its own Sync, because a transaction begins with the default_transaction_... of its first command.
  if (condition_.is_unreset()) clean_up();
  set_role(Role::shared);
  set_access(Access::server_default);
  write_statement(InFlight::Kind::write, exchange, request, false, 0);
  condition_.set_unreset(true);
}

void Connection::end_writes() {
  if (std::exchange(serves_writes_, false) && condition_.is_unreset()) clean_up();
}

void Connection::forget(const Exchange& exchange) {
  for (std::size_t i = 0; i < flight_size_; ++i) {
    InFlight& entry = flight_[(flight_first_ + i) & (flight_.size() - 1)];
    if (entry.exchange == &exchange) {
      entry.exchange = nullptr;
      if (i == 0) {
        answer_.discard = true;
        if (pool_.reactor().now() - foremost_since_ >= slow_) pool_.was_slow(entry.plan.id);
      }
      cancel_abandoned();
      return;
    }
  }
}

void Connection::lease(Exchange& exchange, bool changes_role) {
  SLUICE_ASSERT(idle());
  end_writes();
  leased_ = &exchange;
  lease_.is_finished = false;
  lease_.gathering.begin(pool_.reactor().now());
  if (changes_role) {
    set_role(Role::exclusive);
    set_access(Access::reading);
  }
}

void Connection::send_exclusive(Exchange& exchange, const Request& request) {
  lease_.is_finished = false;
  write_statement(InFlight::Kind::query, exchange, request, false, request.statement.one_row ? 2 : 0);
}

Duration Connection::patience() const {
  const Duration timeout = pool_.statement_timeout();
  const bool server_counts = timeout != Duration::max() && pool_.options().prepared && role() == Role::shared;
  return server_counts ? timeout + grace : timeout;
}

void Connection::expect_answer(Exchange& exchange) {
  lease_.is_finished = false;
  push({.kind = InFlight::Kind::conversation, .exchange = &exchange});
  flush_soon();
}

void Connection::write_reset() {
  write_session_reset(out_);
  condition_.reset_is_on_its_way();
}

// Undoes what a conversation has left behind: an open transaction, a changed session, temporary tables.
void Connection::clean_up() {
  if (condition_.in_transaction()) push_setting("ROLLBACK");
  const bool has_temporary = condition_.has_temporary() && !condition_.is_unreset();
  if (condition_.is_unreset()) {
    was_reset();
    write_session_reset(out_);
    write_sync(out_);
    push({.kind = InFlight::Kind::setting, .after = reset_commands - 1});
  }
  if (has_temporary) {
    condition_.drop_temporary();
    push_setting("DISCARD TEMP");
  }
  flush_soon();
}

void Connection::release() {
  leased_ = nullptr;
  pool_.reactor().end_lull(lull_);
  idle_since_ = pool_.reactor().now();
  // Also if the connection is broken, because close() informs the queries in flight, and this one no longer waits.
  for (std::size_t i = 0; i < flight_size_; ++i) {
    flight_[(flight_first_ + i) & (flight_.size() - 1)].exchange = nullptr;
  }
  if (state_ == State::ready) {
    inbox_.drop();
    if (flight_size_ != 0) {
      answer_.discard = true;
      drain_deadline_ = pool_.reactor().now() + drain_patience;
      watch(drain_deadline_);
      cancel_.send();
    } else {
      inbox_.shrink();
      if (!condition_.is_clean()) clean_up();
    }
  }
  pool_.serve_soon();
  flush_soon();  // this also lets the runner check whether the server has closed the connection
}

// The answers of a batch come together, so it is unknown which of its requests the server is executing: one abandoned
// request is enough for a cancel. If the cancel hits another request of the batch, that request is repeated alone.
// Writes are not repeated, so all of them must be abandoned.
bool Connection::foremost_is_abandoned() const {
  bool is_abandoned = false;
  for (std::size_t i = 0; i < flight_size_; ++i) {
    const InFlight& entry = flight_[(flight_first_ + i) & (flight_.size() - 1)];
    if (serves_writes_ && entry.exchange != nullptr) return false;
    is_abandoned |= entry.exchange == nullptr && entry.kind != InFlight::Kind::setting;
    if (entry.synced && !serves_writes_) break;
  }
  return is_abandoned;
}

// A slow, abandoned request delays those behind it, so it is cancelled. The cancel may arrive just after its end and
// hit the next request, which is then repeated. It must not hit a request sent later, so none is sent meanwhile. A
// server that has not reached the request yet ignores the cancel, so the cancel is sent again, at growing intervals.
void Connection::cancel_abandoned() {
  if (state_ != State::ready || leased_ != nullptr || is_draining() || cancel_.is_on_its_way() || skipping_) return;
  if (!foremost_is_abandoned()) return;
  const Instant now = pool_.reactor().now();
  if (now < cancel_due_) {
    watch(cancel_due_);
    return;
  }
  cancel_due_ = now + (now - foremost_since_);
  cancel_.send();
}

void Connection::cancel_ended() {
  if (state_ != State::ready) return;
  end_drain();
  cancel_abandoned();  // the first request in flight may be a different one now
  pool_.serve_soon();
}

// Whether a cancel for another request has ended this one, and not the server's statement_timeout.
bool Connection::hit_by_our_cancel(const ServerError& error) const {
  if (error.sqlstate != "57014" || !cancel_.may_have_hit()) return false;
  const auto timeout = std::chrono::milliseconds(pool_.options().statement_timeout_ms);
  return timeout == 0ms || pool_.reactor().now() - foremost_since_ < timeout - 5ms;
}

void Connection::end_drain() {
  if (!is_draining() || cancel_.is_on_its_way() || flight_size_ != 0) return;
  drain_deadline_ = never;
  idle_since_ = pool_.reactor().now();
  pool_.serve_soon();
}

Connection::Received Connection::receive() {
  std::size_t ignored = 0;
  return receive(ignored);
}

Connection::Received Connection::receive(std::size_t& total) {
  if (state_ != State::ready) return Received::broken;
  if (!stream_.may_read()) {
    if (leased_ != nullptr) wait_for_more();
    return Received::nothing;
  }
  const core::Io io = inbox_.receive(stream_);
  if (io.would_block()) {
    if (leased_ != nullptr) wait_for_more();
    return Received::nothing;
  }
  if (!io.ok() || io.bytes == 0) {
    break_off(io.ok() ? "the server closed the connection" : "the connection to the server broke");
    return Received::broken;
  }
  total += io.bytes;
  lease_.gathering.received(io.bytes);
  return Received::bytes;
}

void Connection::wait_for_more() {
  if (lull_.pending()) return;
  core::Reactor& reactor = pool_.reactor();
  const Duration pause = lease_.gathering.pause(reactor.now());
  if (pause != Duration::zero()) {
    reactor.begin_lull(lull_, pause);
  } else {
    reactor.end_lull(lull_);
  }
}

void Connection::break_off(std::string_view why) { break_off({Failure::unavailable, {}, std::string(why), 0}); }

void Connection::break_off(Error why) {
  if (state_ != State::ready) return;
  set_state(State::broken);
  failure_ = std::move(why);
  flush_soon();  // the runner does the rest
}

void Connection::flush_soon() { pool_.reactor().at_turn_end(hook_); }

void Connection::flush() {
  if (state_ != State::ready) return;  // the waiters of the handle may belong to the next session's start
  end_batch();
  core::Handle& handle = stream_.handle();
  while (state_ == State::ready && (!out_.empty() || stream_.has_unsent())) {
    if (!handle.may_write) {
      handle.writer = &writer_;
      return;
    }
    const core::Io io = stream_.try_write(out_);
    if (io.would_block()) continue;
    if (!io.ok()) {
      break_off("the connection to the server broke");
      return;
    }
  }
  if (out_.empty() && out_.capacity() > kept_capacity) out_.release();
  handle.writer = nullptr;
  if (std::exchange(lease_.wakes_when_sent, false) && leased_ != nullptr) leased_->readable();
}

void Connection::wake_runner() {
  if (runner_) std::exchange(runner_, nullptr).resume();
}

void Connection::watch(Instant when) {
  if (!watchdog_.armed() || when < watchdog_.when()) pool_.reactor().timers().schedule(watchdog_, when);
}

void Connection::look_around() {
  const Options& options = pool_.options();
  const Instant now = pool_.reactor().now();
  if (state_ != State::ready) return;
  Instant next = now + 1s;
  if (is_draining()) {
    if (now >= drain_deadline_) {
      break_off("a cancelled statement did not end");
      return;
    }
    next = std::min(next, drain_deadline_);
  } else if (leased_ == nullptr && flight_size_ != 0) {
    // A pipelined request starts only when those before it have finished.
    Instant deadline = foremost().deadline;
    if (options.statement_timeout_ms != 0) {
      deadline = std::max(deadline == never ? foremost_since_ : deadline,
                          foremost_since_ + std::chrono::milliseconds(options.statement_timeout_ms));
    }
    // Writes have given up by themselves then. A commit may wait for a standby that is away: only a cancel frees the
    // server's process, which stays when its client leaves.
    const Duration patience = serves_writes_ ? grace + drain_patience : grace;
    if (deadline != never && now >= deadline + patience) {
      break_off("the server did not answer in time");
      return;
    }
    cancel_abandoned();
  } else if (has_no_work() && (given_up_ || pool_.closes_idle(index_, idle_since_))) {
    write_terminate(out_);
    flush();
    break_off("nobody used the connection");
    return;
  } else if (has_no_work() && condition_.is_unreset()) {
    const Instant due = idle_since_ + reset_pause;
    if (now >= due) {
      clean_up();
    } else {
      next = std::min(next, due);
    }
  }
  watch(next);
}

void Connection::on_readable(core::Waiter& waiter) noexcept {
  Connection& self = static_cast<ReadWaiter&>(waiter).owner;
  if (self.leased_ != nullptr) {
    self.leased_->readable();
  } else {
    self.wake_runner();
  }
}

void Connection::on_writable(core::Waiter& waiter) noexcept { static_cast<ReadWaiter&>(waiter).owner.flush(); }

void Connection::on_timer(core::Timer& timer) noexcept {
  Connection& self = static_cast<Watchdog&>(timer).owner;
  self.look_around();
  if (self.leased_ == nullptr) self.wake_runner();
}

void Connection::on_turn_end(core::TurnHook& hook) noexcept {
  Connection& self = static_cast<Hook&>(hook).owner;
  self.flush();
  if (self.leased_ != nullptr) {
    if (self.state_ == State::broken) self.leased_->readable();
  } else if (self.state_ == State::broken || self.stream_.may_read() ||
             (self.is_draining() && self.inbox_.has_more())) {
    self.wake_runner();
  }
}

}  // namespace sluice::sql::postgres
