#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/server_state.h"
#include "net/acceptor.h"
#include "net/tls/context.h"

namespace sluice::http {

// The HTTP server of one core: its listeners, its connections and their shared state.
class Server final : net::Acceptor::Owner, ConnectionRunner {
 public:
  using Counters = ServerCounters;

  Server(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer = nullptr);
  Server(const Server&) = delete;
  ~Server();  // closes all open connections

  // See net::Acceptor. `secure` means TLS and requires set_tls() before.
  [[nodiscard]] Result<core::Address> listen(const net::Listening& wanted);
  [[nodiscard]] Result<core::Address> listen(const core::Address& address, bool secure = false) {
    return listen({.address = address, .secure = secure});
  }
  [[nodiscard]] Result<core::Address> bind(const net::Listening& wanted) { return acceptor_.bind(wanted); }
  [[nodiscard]] Result<void> listen_on(std::span<const net::Listening> wanted);

  // Applies to new requests; open connections stay open. Header limits apply from the next request of an HTTP/1.1
  // connection, and to new HTTP/2 connections. `most_body` is never lowered because bodies may be in transit.
  void set_options(ServerOptions options);
  // Applies to new connections; open ones keep their settings.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    tls_context_ = std::move(context);
    state_.tls.tickets = std::move(tickets);
  }

  // Stops accepting, closes idle connections, and lets running requests, and the first ones of new connections, finish
  // with `Connection: close`. Connections that have switched protocols are closed over this time, but at least
  // 200 a second, so that their clients do not all come back at once.
  void drain(Duration over = {});
  // Cuts the unfinished responses whose bodies `owner` keeps alive (owner_of()), in a way that their clients can
  // detect. In HTTP/1.1 this ends the connection in the loop's next turn. In HTTP/2 it ends the stream and releases its
  // body at once.
  void cut_answers_of(const void* owner);
  // Cuts the exchanges that hold this pin in the same way, also those that have no response yet.
  void cut_pinned(const Pinned& pinned);
  // After drain(): closes what is still open. Must not be called from within a request.
  void cut();
  [[nodiscard]] bool drained() const { return state_.draining && newest_ == nullptr; }
  [[nodiscard]] const Counters& counters() const { return state_.counters; }
  // Resets Counters::bodies.peak to the current value.
  void forget_peak_of_bodies() { state_.counters.bodies.peak = state_.counters.bodies.held; }

 private:
  core::Handle& next_handle() override;
  void accepted(const core::Address& peer, bool secure) override;
  void dropped(net::Acceptor::Dropped why) noexcept override;
  // Returns false if the connection must be closed at once.
  [[nodiscard]] bool admit(h1::Connection& connection);
  void make_room();
  void open(std::unique_ptr<h1::Connection> connection);
  void serve(h1::Connection& connection) override;
  core::Task<void> run(h1::Connection& connection);
  void close(h1::Connection& connection);
  void drain(h1::Connection& connection) noexcept;
  core::Task<void> drain_upgraded(std::size_t count, Duration over);

  ServerState state_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;
  h1::Connection* newest_ = nullptr;          // list of all connections; the server owns them
  std::unique_ptr<h1::Connection> prepared_;  // for the next client
  net::Acceptor acceptor_;
  core::TaskGroup running_;  // a task for each connection that is not idle
};

}  // namespace sluice::http
