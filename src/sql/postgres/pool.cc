#include "sql/postgres/pool.h"

#include <algorithm>

#include "core/back_off.h"
#include "sql/postgres/describe.h"

namespace sluice::sql::postgres {
namespace {

constexpr Duration first_backoff = 50ms;
constexpr Duration longest_backoff = 1s;
// One connection opens at a time, so that a server that refuses gets one attempt, not one per connection. After this
// time another one may open, because an attempt whose packets are lost lasts until its timeout.
constexpr Duration opening_patience = 1s;
constexpr Duration least_age = 1s;  // of a session that is given up
// After this many consecutive failures to connect, requests fail at once. So they wait during a quick restart, but not
// during an outage.
constexpr std::uint32_t failures_until_away = 3;
constexpr std::uint16_t most_small_results = 1024;

}  // namespace

Pool::Pool(core::Reactor& reactor, Options options)
    : Sessions(reactor, std::move(options)),
      random_(static_cast<std::uint64_t>(reactor.wall_clock_ns()) | 1),
      retry_timer_(&Pool::on_retry, *this),
      serve_hook_(&Pool::on_turn_end, *this),
      column_lists_(*this) {
  resize(options_.pool_size, std::chrono::milliseconds(options_.wait_ms));  // opens the first connection
}

void Pool::resize(std::size_t connections, Duration wait) {
  options_.pool_size = connections;
  options_.wait_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
  while (connections_.size() < std::max<std::size_t>(connections, 1)) {
    connections_.push_back(std::make_unique<Connection>(*this, connections_.size()));
  }
  for (const auto& connection : connections_) connection->look_around();
  serve_soon();
}

Pool::~Pool() {
  tasks_.cancel();
  SLUICE_ASSERT(waiting_ == 0);
}

std::size_t Pool::open_connections() const {
  return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(), [](const auto& connection) {
    return connection->state() == Connection::State::ready;
  }));
}

std::size_t Pool::idle_connections() const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const auto& one) { return one->idle(); }));
}

bool Pool::server_is_away() const { return failures_ >= failures_until_away && open_connections() == 0; }

Error Pool::unavailable() const {
  if (open_connections() != 0) return {Failure::unavailable, {}, "every connection is busy", 0};
  Error error = last_failure_;
  error.failure = Failure::unavailable;
  if (error.message.empty()) error.message = "no connection to the server yet";
  return error;
}

void Pool::admit(Candidate& candidate) {
  Queue& queue = queue_of(candidate);
  const bool helps = candidate.use() == Candidate::Use::helper;
  if (queue.first == nullptr && place(candidate)) return;
  if (server_is_away()) {
    if (!helps) ++counters_.unavailable;
    candidate.refuse(unavailable());
    return;
  }
  if (!helps && waiting_ >= options_.wait_limit) {
    ++counters_.unavailable;
    candidate.refuse({Failure::unavailable, {}, "too many requests wait for a connection", 0});
    return;
  }
  candidate.queue = {nullptr, queue.last};
  (queue.last != nullptr ? queue.last->queue.next : queue.first) = &candidate;
  queue.last = &candidate;
  if (!helps) ++waiting_;
  candidate.queued();
}

void Pool::leave_queue(Candidate& candidate) {
  Queue& queue = queue_of(candidate);
  auto& place = candidate.queue;
  (place.previous != nullptr ? place.previous->queue.next : queue.first) = place.next;
  (place.next != nullptr ? place.next->queue.previous : queue.last) = place.previous;
  place = {};
  if (candidate.use() != Candidate::Use::helper) --waiting_;
}

bool Pool::place(Candidate& candidate) {
  switch (candidate.use()) {
    case Candidate::Use::shared:
      return place_shared(candidate);
    case Candidate::Use::exclusive:
    case Candidate::Use::stream:
      return place_exclusive(candidate);
    case Candidate::Use::helper:
      return waiting_ == 0 && place_exclusive(candidate);
    case Candidate::Use::conversation:
    case Candidate::Use::write:
      return place_transaction(candidate);
  }
  return false;
}

// The server needs one send for each ReadyForQuery, but wakes up once for all requests that have arrived. So it is
// fastest to send as many requests as possible on as few connections as possible.
bool Pool::place_shared(Candidate& candidate) {
  if (allowed().size() == 1 && exclusive_waiting_.first != nullptr && exclusive_turn_) return false;
  for (const auto& connection : allowed()) {
    if (!connection->can_share(options_.pipeline, reactor_.now())) continue;
    candidate.place(*connection);
    return true;
  }
  for (const auto& connection : allowed()) {
    if (!connection->idle()) continue;
    candidate.place(*connection);
    return true;
  }
  open_more(Connection::Role::shared);
  return false;
}

// A slow client can make a stream long. If the pool may have several connections, one is kept for short requests.
bool Pool::place_exclusive(Candidate& candidate) {
  const bool shares = may_repeat();
  std::size_t leased = 0;
  std::size_t shared = 0;
  Connection* idle = nullptr;
  Connection* idle_shared = nullptr;
  for (const auto& connection : allowed()) {
    leased += connection->leased() ? 1 : 0;
    if (connection->state() == Connection::State::ready && connection->role() == Connection::Role::shared) {
      ++shared;
      if (connection->idle()) idle_shared = connection.get();
    } else if (idle == nullptr && connection->idle()) {
      idle = connection.get();
    }
  }
  if (shares && allowed().size() > 1 && leased >= allowed().size() - 1) return false;
  if (idle == nullptr && idle_shared != nullptr) {
    // The last shared connection stays shared, unless the pool has no room for another.
    const bool opening = std::ranges::any_of(
        allowed(), [](const auto& connection) { return connection->state() == Connection::State::opening; });
    if (!shares || shared > 1 || (!can_grow() && !opening)) idle = idle_shared;
  }
  if (idle == nullptr) {
    open_more(Connection::Role::exclusive);
    return false;
  }
  candidate.place(*idle);
  return true;
}

// Conversations are mostly transactions that write. They prefer a connection that does not have to change its access.
//
// The server executes the writes of one connection one after the other, with a commit for each. Several connections
// share the work of commits. So writes share a connection only while none is idle.
bool Pool::place_transaction(Candidate& candidate) {
  Connection* chosen = nullptr;
  for (const auto& connection : allowed()) {
    if (!connection->idle()) continue;
    chosen = connection.get();
    if (chosen->access() == Connection::Access::server_default) break;
  }
  if (chosen == nullptr) {
    open_more(Connection::Role::shared);
    // A connection that is shared all the time is never idle.
    if (candidate.use() != Candidate::Use::write || exclusive_waiting_.first != nullptr) return false;
    for (const auto& connection : allowed()) {
      if (!connection->can_share_writes(reactor_.now()) || !candidate.can_write(*connection)) continue;
      if (chosen == nullptr || connection->in_flight() < chosen->in_flight()) chosen = connection.get();
    }
    if (chosen == nullptr) return false;
  }
  candidate.place(*chosen);
  return true;
}

void Pool::serve(Queue& queue) {
  while (Candidate* const candidate = queue.first) {
    if (!place(*candidate)) return;
    leave_queue(*candidate);
    if (candidate->use() != Candidate::Use::shared) candidate->wake();
  }
}

void Pool::serve() {
  if (exclusive_turn_) {
    serve(exclusive_waiting_);
    serve(shared_waiting_);
  } else {
    serve(shared_waiting_);
    serve(exclusive_waiting_);
  }
  serve(helpers_waiting_);
  if (allowed().size() == 1) exclusive_turn_ = exclusive_waiting_.first != nullptr;
  const auto is_on = [](const auto& connection) { return connection->state() != Connection::State::off; };
  if (!retired_ && std::ranges::none_of(connections_, is_on)) open_more(Connection::Role::shared);
}

void Pool::retire() {
  retired_ = true;
  for (const auto& connection : connections_) connection->look_around();
}

Instant Pool::may_grow_at() const {
  bool has_room = false;
  Instant when = retry_at_;
  for (const auto& connection : allowed()) {
    has_room |= connection->state() == Connection::State::off;
    if (connection->state() == Connection::State::opening) {
      when = std::max(when, connection->opening_since() + opening_patience);
    }
  }
  return has_room ? when : never;
}

void Pool::open_more(Connection::Role role) {
  if (const Instant when = may_grow_at(); when > reactor_.now()) {
    if (when != never && !retry_timer_.armed()) reactor_.timers().schedule(retry_timer_, when);
    return;
  }
  for (const auto& connection : allowed()) {
    if (connection->state() != Connection::State::off) continue;
    tasks_.spawn(connection->run(role));
    return;
  }
}

void Pool::opened() {
  ++counters_.opened;
  last_failure_ = {};
  failures_ = 0;
  serve_soon();
}

void Pool::give_up_sessions() {
  for (const auto& connection : connections_) connection->give_up(reactor_.now() - least_age);
}

void Pool::closed(bool was_ready, Duration lifetime, bool configuration, const Error& why) {
  last_failure_ = why;
  ++(was_ready ? counters_.lost : counters_.open_failures);
  if (was_ready && (lifetime >= 1s || retired_)) {
    failures_ = 0;
    retry_at_ = reactor_.now();
  } else {
    // 50 ms, 100 ms, ... 1 s, less a random part of up to half, so that cores do not reconnect simultaneously. A
    // session that was opened shows that the server is there.
    const Duration most = std::min<Duration>(longest_backoff, first_backoff * (1 << std::min(failures_, 10U)));
    if (!was_ready) ++failures_;
    retry_at_ = reactor_.now() + core::jittered(random_, most);
    reactor_.timers().schedule(retry_timer_, retry_at_);
  }
  if (server_is_away() || (configuration && open_connections() == 0)) {
    // If the server is unreachable, or the password is wrong, fail the waiting requests at once.
    for (Queue* queue : {&shared_waiting_, &exclusive_waiting_, &helpers_waiting_}) {
      while (Candidate* const candidate = queue->first) {
        leave_queue(*candidate);
        if (queue != &helpers_waiting_) ++counters_.unavailable;
        candidate->refuse(unavailable());
        candidate->wake();
      }
    }
  }
  serve_soon();
}

void Pool::look_up(StatementId id, ColumnLists::List columns, bool types_changed) {
  ++counters_.look_ups;
  spawn(look_up_columns(*this, id, std::move(columns), types_changed));
}

bool Pool::closes_idle(std::size_t index, Instant idle_since) const {
  if (retired_ || index >= allowed().size()) return true;
  return options_.idle_ms != 0 && open_connections() > 1 &&
         reactor_.now() >= idle_since + std::chrono::milliseconds(options_.idle_ms);
}

Pool::Habit& Pool::habit(const Statement& statement) {
  const auto [slot, serial] = statement.id;
  if (slot >= habits_.size()) habits_.resize(slot + 1);
  Habit& habit = habits_[slot];
  if (habit.serial != serial) habit = {.serial = serial, .exclusive = !statement.one_row && !statement.may_fly};
  return habit;
}

bool Pool::prefers_exclusive(const Statement& statement) {
  if (!may_repeat()) return true;
  return statement.id.is_named() && habit(statement).exclusive;
}

void Pool::has_taken(const Statement& statement, Duration time) {
  time < std::chrono::milliseconds(options_.slow_ms) ? was_small(statement) : was_slow(statement.id);
}

void Pool::was_small(const Statement& statement) {
  Habit& known = habit(statement);
  if (++known.small_results < known.enough) return;
  known.small_results = 0;
  known.exclusive = false;
}

void Pool::was_slow(StatementId id) {
  if (id.slot >= habits_.size() || habits_[id.slot].serial != id.serial) return;
  habits_[id.slot].small_results = 0;
  habits_[id.slot].exclusive = true;
}

void Pool::was_large(const Statement& statement, bool overflowed) {
  if (!statement.id.is_named()) return;
  Habit& known = habit(statement);
  known.small_results = 0;
  if (!overflowed) return;
  known.exclusive = true;
  known.enough = std::min<std::uint16_t>(most_small_results, static_cast<std::uint16_t>(known.enough * 2));
}

void Pool::on_retry(core::Timer& timer) noexcept { static_cast<Retry&>(timer).owner.serve(); }

void Pool::on_turn_end(core::TurnHook& hook) noexcept { static_cast<Hook&>(hook).owner.serve(); }

}  // namespace sluice::sql::postgres
