#include "http/h2/connection.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/next_turn.h"

namespace sluice::http::h2 {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t read_turn_bytes = 64 * 1024;  // most bytes read per turn of the loop
constexpr std::size_t turn_bytes = 512 * 1024;      // most bytes produced and sent per turn of the loop
constexpr std::size_t lingering_bytes = 1024 * 1024;
constexpr Duration lingering_time = 2s;
constexpr Duration draining_lingering_time = 200ms;

}  // namespace

Connection::Connection(Engine& engine, net::Stream& stream, std::string_view peer, bool secure)
    : engine_(engine),
      stream_(stream),
      session_(engine, *this, peer, secure, stream.tls() != nullptr ? stream.tls()->peer_certificate() : nullptr),
      flush_([](core::TurnHook& hook) noexcept { static_cast<Hook&>(hook).owner.output_wanted_.wake(); }, *this),
      end_([](core::TurnHook& hook) noexcept { static_cast<Hook&>(hook).owner.ended_.wake(); }, *this),
      clock_([](core::Timer& timer) noexcept { static_cast<Clock&>(timer).owner.look_at_the_clock(); }, *this) {}

core::Task<void> Connection::run(Buffer received) {
  input_ = std::move(received);
  tasks_.spawn(write());
  tasks_.spawn(read());
  look_at_the_clock();
  // The end is requested from within one of the tasks, so the tasks are cancelled at the end of the turn.
  co_await ended_;
  over_ = true;
  tasks_.cancel();
  output_wanted_.forget();
  engine_.reactor.timers().cancel(clock_);
  session_.end();
  if (!failed_) co_await linger();
  while (session_.has_upgrades()) co_await ended_;
}

core::Task<void> Connection::refuse(Buffer received) {
  session_.refuse_all();
  co_await run(std::move(received));
}

void Connection::drain() {
  session_.drain();
  look_at_the_clock();
}

void Connection::go_away() {
  session_.go_away();
  if (!client_ended_) look_at_the_clock();
}

core::Task<void> Connection::read() {
  core::TurnShare turn(engine_.reactor, read_turn_bytes);
  for (;;) {
    if (!input_.empty()) {
      try {
        session_.receive(input_.view());
      } catch (const std::bad_alloc&) {
        co_return fail_without_memory();
      }
      input_.clear();
      output_wanted_.wake();
      watch_what_is_busy();
    }
    const auto got = co_await stream_.read(input_, read_bytes, never);
    if (got && *got != 0) {
      if (turn.spend(*got)) co_await turn.next_turn();
      continue;
    }
    if (!got) {
      failed_ = true;
      end();
    } else {
      // The client may still want the running responses; the grace period limits that.
      client_ended_ = true;
      if (!session_.has_streams()) end();
      engine_.reactor.timers().schedule(clock_, engine_.reactor.now() + engine_.options.half_close_grace);
    }
    co_return;
  }
}

core::Task<void> Connection::write() {
  core::TurnShare turn(engine_.reactor, turn_bytes);
  for (;;) {
    if (output_.capacity() == 0) output_.swap(engine_.spare_output);
    try {
      session_.produce(output_);
    } catch (const std::bad_alloc&) {
      co_return fail_without_memory();
    }
    if (!output_.empty()) {
      watch_what_is_busy();
      const bool turn_is_over = turn.spend(output_.size());
      iovec part{output_.data(), output_.size()};
      const auto written = co_await stream_.write({&part, 1}, engine_.options.write_timeout);
      output_.clear();
      if (written) {
        if (turn_is_over) co_await turn.next_turn();
        continue;
      }
      failed_ = true;
      end();
      co_return;
    }
    if (engine_.spare_output.capacity() == 0) {
      output_.swap(engine_.spare_output);
    } else {
      output_.release();
    }
    if (session_.over() || (client_ended_ && !session_.has_streams())) {
      end();
      co_return;
    }
    co_await output_wanted_;
  }
}

void Connection::fail_without_memory() {
  ++engine_.counters.out_of_memory;
  failed_ = true;
  end();
}

void Connection::watch_what_is_busy() {
  const Instant soon = engine_.reactor.now() + session_.shortest_patience();
  if (session_.is_busy() && clock_.when() > soon) engine_.reactor.timers().schedule(clock_, soon);
}

void Connection::look_at_the_clock() {
  if (over_) return;
  const Instant now = engine_.reactor.now();
  if (client_ended_) return end();
  const Instant next = session_.expire(now);
  const Instant soon = session_.is_busy() ? now + session_.shortest_patience() : never;
  engine_.reactor.timers().schedule(clock_, std::min({next, soon, now + engine_.options.idle_timeout}));
}

// Lets the client read the last bytes before the connection closes. Closing with unread bytes would reset the
// connection.
core::Task<void> Connection::linger() {
  core::Reactor& reactor = engine_.reactor;
  if (!co_await stream_.end(engine_.options.write_timeout)) co_return;
  // A client that was sent a GOAWAY and stays silent does not delay the end of the program for long.
  const Instant deadline = reactor.now() + (session_.is_draining() ? draining_lingering_time : lingering_time);
  core::TurnShare turn(reactor, read_turn_bytes);
  for (std::size_t dropped = 0; dropped < lingering_bytes && !client_ended_;) {
    input_.clear();
    const auto got = co_await stream_.read(input_, read_bytes, deadline);
    if (!got || *got == 0) co_return;
    dropped += *got;
    if (turn.spend(*got)) co_await turn.next_turn();
  }
}

}  // namespace sluice::http::h2
