#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/reading.h"
#include "core/reactor.h"
#include "http/body_budget.h"
#include "http/exchange.h"
#include "http/handler.h"
#include "http/observer.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server_options.h"
#include "net/tls/context.h"

namespace sluice::http {

namespace h1 {
class Connection;
struct ResponseHead;
struct Workspace;
}  // namespace h1
namespace h2 {
class Engine;
}  // namespace h2

struct ServerCounters {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;            // beyond the limit of connections
  std::uint64_t open = 0;               // gauge
  std::array<std::uint64_t, 5> floods{};  // HTTP/2 connections that were ended, by h2::Flood
  std::uint64_t out_of_memory = 0;      // connections and streams that ended because memory ran out
  std::uint64_t bad_proxy_headers = 0;  // connections that lacked the required PROXY header
  BodyBudget::Counters bodies{};
  struct Tls {
    std::uint64_t handshakes = 0;
    std::uint64_t resumed = 0;  // handshakes that resumed a session
    std::uint64_t failed = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t plain_http = 0;  // connections that sent plain HTTP instead of a handshake
    friend bool operator==(const Tls&, const Tls&) = default;
  } tls;
  // Gauge: requests being answered, indexed by whether they came over TLS and by Method.
  std::array<std::array<std::uint32_t, method_count>, 2> active{};

  [[nodiscard]] Readings readings() const;
};

// Runs the connections: the server that owns them.
class ConnectionRunner {
 public:
  // Runs the connection until it is idle again, or until it has ended and is closed.
  virtual void serve(h1::Connection& connection) = 0;

 protected:
  ~ConnectionRunner() = default;
};

// The state that the connections of one core's server share, and the memory lent to them.
class ServerState {
 public:
  ServerState(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer,
              ConnectionRunner& runner);
  ServerState(const ServerState&) = delete;
  ~ServerState();  // must be destroyed after all connections

  // `most_body` is never lowered because bodies may be in transit. `new_limits`: the limits of request heads change.
  void set_options(ServerOptions changed, bool new_limits);
  [[nodiscard]] std::unique_ptr<h1::Workspace> take_workspace();
  void give_back(std::unique_ptr<h1::Workspace> workspace);
  // An HTTP/1.1 head with the fields of every response. The views are valid until the next call.
  [[nodiscard]] h1::ResponseHead start_head(const Exchange& exchange, const Response& response, bool secure);
  [[nodiscard]] h2::Engine& http2();

  core::Reactor& reactor;
  Handler& dispatcher;
  ServerOptions options;
  Observer* const observer;
  ConnectionRunner& runner;
  ServerCounters counters;
  BodyBudget bodies;
  net::tls::CoreState tls;
  bool draining = false;  // new requests are the last ones of their connections

 private:
  struct Date;

  std::vector<std::unique_ptr<h1::Workspace>> spare_workspaces_;
  std::unique_ptr<Date> date_;
  std::unique_ptr<h2::Engine> http2_;  // created for the first HTTP/2 connection
};

}  // namespace sluice::http
