#include "http/server.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/sleep.h"
#include "http/h1/connection.h"

namespace sluice::http {
namespace {

constexpr Duration drain_step = 20ms;
constexpr std::size_t least_drained_in_a_step = 4;

net::AcceptorOptions acceptor_options(const ServerOptions& options) {
  return {.descriptors = options.descriptors, .trouble = options.trouble};
}

}  // namespace

Server::Server(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer)
    : state_(reactor, dispatcher, std::move(options), observer, *this),
      acceptor_(reactor, *this, acceptor_options(state_.options)) {}

Server::~Server() {
  acceptor_.stop();
  cut();
}

void Server::cut() {
  running_.cancel();
  while (newest_ != nullptr) close(*newest_);
}

Result<core::Address> Server::listen(const net::Listening& wanted) {
  SLUICE_ASSERT(!wanted.secure || tls_context_ != nullptr);
  return acceptor_.listen(wanted);
}

Result<void> Server::listen_on(std::span<const net::Listening> wanted) {
  SLUICE_ASSERT(tls_context_ != nullptr || std::ranges::none_of(wanted, &net::Listening::secure));
  return acceptor_.listen_on(wanted);
}

core::Handle& Server::next_handle() {
  if (!prepared_) prepared_ = std::make_unique<h1::Connection>(state_);
  return prepared_->handle();
}

void Server::accepted(const core::Address& peer, bool secure) {
  ++state_.counters.accepted;
  if (!admit(*prepared_)) return prepared_.reset();
  prepared_->begin(peer);
  if (state_.options.proxy_protocol && state_.options.proxy_protocol->trusts(peer.ip()))
    prepared_->begin_with_proxy_header();
  if (secure) prepared_->begin_with_tls(tls_context_);
  open(std::move(prepared_));
}

void Server::dropped(net::Acceptor::Dropped why) noexcept {
  if (why == net::Acceptor::Dropped::no_memory) {
    ++state_.counters.out_of_memory;
  } else {
    ++state_.counters.accepted;
    ++state_.counters.refused;
  }
  prepared_.reset();
}

bool Server::admit(h1::Connection& connection) {
  if (state_.counters.open < state_.options.connections) return true;
  if (state_.options.makes_room) {
    make_room();
    return true;
  }
  ++state_.counters.refused;
  // A limited number of further connections get a 503; all others are closed at once.
  if (state_.counters.open >= state_.options.connections + state_.options.connections / 8 + 16) return false;
  connection.refuse_all();
  return true;
}

// Closes the connection at once, so that its descriptor is free for the next one.
void Server::make_room() {
  h1::Connection* goes = newest_;
  for (h1::Connection* each = newest_; each != nullptr; each = each->listed.next) {
    if (goes->awaits_answer() || !each->awaits_answer()) goes = each;
  }
  if (goes == nullptr) return;
  if (!goes->is_idle()) {
    goes->cut();
    core::TaskGroup::cancel(*goes->listed.task);
  }
  close(*goes);
}

void Server::open(std::unique_ptr<h1::Connection> connection) {
  ++state_.counters.open;
  h1::Connection& opened = *connection.release();  // the list owns it
  opened.listed.next = newest_;
  if (newest_ != nullptr) newest_->listed.previous = &opened;
  newest_ = &opened;
  serve(opened);
}

void Server::serve(h1::Connection& connection) {
  try {
    running_.spawn(run(connection), &connection.listed.task);
  } catch (const std::bad_alloc&) {
    ++state_.counters.out_of_memory;
    close(connection);
  }
}

core::Task<void> Server::run(h1::Connection& connection) {
  using Next = h1::Connection::Next;
  try {
    Next next = Next::idle;
    while (next == Next::idle) {
      next = co_await connection.run();
      if (next == Next::idle && connection.wait_for_request()) co_return;
    }
    if (next == Next::upgrade) co_await connection.run_upgrade();
    if (next == Next::http2) co_await connection.run_http2();
  } catch (const std::bad_alloc&) {
    ++state_.counters.out_of_memory;
  }
  close(connection);
}

void Server::close(h1::Connection& connection) {
  const h1::Connection::Listed& listed = connection.listed;
  if (listed.next != nullptr) listed.next->listed.previous = listed.previous;
  (listed.previous != nullptr ? listed.previous->listed.next : newest_) = listed.next;
  --state_.counters.open;
  const std::unique_ptr<h1::Connection> last(&connection);
}

void Server::drain(Duration over) {
  if (state_.draining) return;
  state_.draining = true;
  acceptor_.stop();
  prepared_.reset();
  std::size_t upgraded = 0;
  // drain() may close the connection and thereby remove it from the list.
  for (h1::Connection* connection = newest_; connection != nullptr;) {
    h1::Connection* next = connection->listed.next;
    if (over != Duration() && connection->is_upgraded()) {
      connection->listed.awaits_drain = true;
      ++upgraded;
    } else {
      drain(*connection);
    }
    connection = next;
  }
  if (upgraded != 0) running_.spawn(drain_upgraded(upgraded, over));
}

void Server::drain(h1::Connection& connection) noexcept {
  try {
    connection.drain();
  } catch (const std::bad_alloc&) {
    ++state_.counters.out_of_memory;  // this connection is not drained; cut() closes it
  }
}

core::Task<void> Server::drain_upgraded(std::size_t count, Duration over) {
  const auto steps = static_cast<std::size_t>(over / drain_step) + 1;
  const std::size_t in_a_step = std::max(least_drained_in_a_step, (count + steps - 1) / steps);
  for (;;) {
    std::size_t drained = 0;
    for (h1::Connection* connection = newest_; connection != nullptr && drained < in_a_step;) {
      h1::Connection* next = connection->listed.next;
      if (std::exchange(connection->listed.awaits_drain, false)) {
        ++drained;
        drain(*connection);
      }
      connection = next;
    }
    if (drained == 0) co_return;
    co_await core::Sleep(state_.reactor, state_.reactor.now() + drain_step);
  }
}

void Server::cut_answers_of(const void* owner) {
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->listed.next) {
    connection->cut_answers_of(owner);
  }
}

void Server::cut_pinned(const Pinned& pinned) {
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->listed.next) {
    connection->cut_pinned(pinned);
  }
}

void Server::set_options(ServerOptions options) {
  const ServerOptions& old = state_.options;
  const bool new_limits = options.header_limit != old.header_limit || options.target_limit != old.target_limit ||
                          options.field_limit != old.field_limit;
  state_.set_options(std::move(options), new_limits);
  acceptor_.set_options(acceptor_options(state_.options));
  for (h1::Connection* connection = newest_; connection != nullptr; connection = connection->listed.next) {
    connection->follow_options(new_limits);
  }
}

}  // namespace sluice::http
