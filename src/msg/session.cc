#include "msg/session.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/log.h"
#include "msg/sessions.h"

namespace sluice::msg {
namespace {

struct Handling {
  explicit Handling(bool& set) : flag(set) { flag = true; }
  Handling(const Handling&) = delete;
  ~Handling() { flag = false; }
  bool& flag;
};

}  // namespace

Session::Session(Sessions& sessions, std::uint64_t id, std::size_t most_copied)
    : sessions_(sessions), outbox_(most_copied), id_(id) {}

bool Session::admits() {
  if (state_ != State::open && !(state_ == State::ending && handling_)) return false;
  if (queued() < sessions_.options().most_queued && !is_full_ && (queued() == 0 || !holds_too_much())) [[likely]]
    return true;
  ++sessions_.counting().dropped;
  if (sessions_.options().slow_receiver == SlowReceiver::close) {
    cut(Ended::slow);
  } else {
    is_full_ = true;
    ++missed_;
  }
  return false;
}

bool Session::send(const Frame& frame) {
  const bool is_valid = frame.body.size() <= largest_body && (frame.flags & ~(correlated_flag | error_flag)) == 0;
  if (!is_valid || !admits()) return false;
  append(frame);
  return true;
}

void Session::append(const Frame& frame) {
  if (outbox_.bytes().capacity() == 0) outbox_.bytes() = sessions_.take_buffer();
  const std::size_t before = outbox_.size();
  outbox_.append(frame);
  count(outbox_.size() - before);
}

bool Session::send(const Payload& payload) {
  if (!admits()) return false;
  if (outbox_.bytes().capacity() == 0 && outbox_.copies(*payload)) {
    outbox_.bytes() = sessions_.take_buffer();
  }
  const std::size_t before = outbox_.size();
  outbox_.append(payload);
  count(outbox_.size() - before);
  return true;
}

bool Session::send_error(const Frame& about, ErrorCode code, std::string_view text) {
  if (about.is_error() || !admits()) return false;
  if (outbox_.bytes().capacity() == 0) outbox_.bytes() = sessions_.take_buffer();
  const std::size_t before = outbox_.size();
  outbox_.append_error(about, code, text);
  count(outbox_.size() - before);
  return true;
}

void Session::deny(const Frame& about, ErrorCode code, std::string_view text) {
  SLUICE_ASSERT(state_ == State::opening);
  ++sessions_.counting().denied;
  set_state(State::ending, Ended::unauthorized);
  const Handling handling(handling_);  // a session that is ending sends no more without it
  send_error(about, code, text);
}

void Session::count(std::size_t bytes) {
  Sessions::Counters& counters = sessions_.counting();
  ++counters.frames_out;
  counters.bytes_out += bytes;
  account();
  mark();
}

void Session::account() noexcept {
  const std::size_t now = outbox_.memory() + in_flight_memory_ + input_memory_;
  sessions_.held_ += now - held_;
  held_ = now;
}

bool Session::holds_too_much() const noexcept {
  const std::size_t most = sessions_.options().memory;
  return sessions_.held_ >= most && held_ > most / std::max<std::size_t>(sessions_.all().size(), 1);
}

Outbox Session::take_outbox() {
  in_flight_ = outbox_.size();
  in_flight_memory_ = outbox_.memory();
  return std::move(outbox_);
}

bool Session::hold_input(std::size_t bytes) {
  input_memory_ = bytes;
  account();
  if (bytes == 0 || !holds_too_much()) return true;
  ++sessions_.counting().out_of_memory;
  cut(Ended::lost);
  return false;
}

core::Task<void> Session::watch_client() { co_return; }

bool Session::may_send_message() noexcept {
  const SessionOptions& options = sessions_.options();
  if (options.message_interval == Duration::zero()) [[likely]]
    return true;
  const Instant now = sessions_.reactor().now();
  const Duration most = options.message_interval * options.message_burst;
  const Instant full_again = std::clamp(full_again_, now, now + most) + options.message_interval;  // limits may change
  if (full_again - now > most) return false;
  full_again_ = full_again;
  return true;
}

bool Session::has_room() const noexcept { return queued() <= sessions_.options().most_queued / 2 || !open(); }

void Session::written() {
  in_flight_ = in_flight_memory_ = 0;
  account();
  if (is_full_ && outbox_.empty() && state_ != State::ended) mark_gap();
  mark();
}

// The queue is empty, so there is room, and a session that is ending tells its client too.
void Session::mark_gap() {
  is_full_ = false;
  const std::uint32_t missed = std::exchange(missed_, 0);
  std::array<std::byte, 4> body{};
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>(missed >> (24 - 8 * i));
  append(Frame{.id = gap_id, .body = body});
}

core::Task<void> Session::pass(const Frame& frame) {
  if (!may_send_message()) [[unlikely]] {
    ++sessions_.counting().limited;
    send_error(frame, ErrorCode::overloaded, "The session ends: these are more messages than one client may send.");
    close(Ended::limited);
    return {};
  }
  try {
    const Handling handling(handling_);
    core::Task<void> task = sessions_.dispatch(*this, frame);
    return task ? wait_for(std::move(task), frame) : std::move(task);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    handler_failed(frame, error);
    return {};
  }
}

core::Task<void> Session::wait_for(core::Task<void> handler, Frame frame) {
  try {
    const Handling handling(handling_);
    core::TaskGroup watching;  // ends with the handler
    watching.spawn(watch_client());
    co_await std::move(handler);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    handler_failed(frame, error);
  }
}

void Session::handler_failed(const Frame& frame, const std::exception& error) {
  ++sessions_.counting().failed_handlers;
  log_error(fmt::format("the handler of message {} failed: {}", frame.id, error.what()));
  send_error(frame, ErrorCode::internal, "The message could not be handled.");
}

void Session::close(Ended why) {
  if (state_ >= State::ending) return;
  set_state(state_ == State::opening ? State::ended : State::ending, why);
}

void Session::cut(Ended why) {
  if (state_ != State::ended) set_state(State::ended, state_ == State::ending ? why_ : why);
}

void Session::set_state(State state, Ended why) {
  SLUICE_ASSERT(state > state_);
  state_ = state;
  why_ = why;
  mark();
}

void Session::mark() {
  SLUICE_ASSERT(sessions_.is_here());  // a session belongs to one core
  sessions_.mark(*this);
}

}  // namespace sluice::msg
