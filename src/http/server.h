#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/reading.h"
#include "base/result.h"
#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/answer_fields.h"
#include "http/body_budget.h"
#include "http/client_address.h"
#include "http/exchange.h"
#include "http/handler.h"
#include "http/request.h"
#include "net/acceptor.h"
#include "net/tls/context.h"

namespace sluice::http {

// Describes one answered request, for logs and metrics.
struct Completion {
  const Exchange* exchange = nullptr;  // null: the received bytes were not a valid request (400, 408, 431 ...)
  Method method = Method::other;       // set for an invalid request too if it was recognized
  bool secure = false;                 // the request came over TLS
  std::string_view peer;               // the client's address, without its port
  int status = 0;
  std::uint64_t body_bytes = 0;  // sent, without framing
  Duration duration{};           // from the last byte of the request's head to the last byte of the response
  bool broken = false;           // the response was cut by the handler's stream or by the client
};
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void completed(const Completion& completion) = 0;
};

// Limits for clients.
struct ServerOptions {
  std::size_t header_limit = 16 * 1024;    // bytes of request line and fields; beyond it: 431
  std::size_t target_limit = 8 * 1024;     // bytes of the request's target; beyond it: 414
  std::size_t field_limit = 128;           // fields of a request; beyond it: 431
  std::uint64_t body_limit = 1024 * 1024;  // bytes of a body; beyond it: 413
  // The most that a handler can allow with BodyReader::allow_more(). A longer body is refused before the handler is
  // called; a body longer than the handler allows is refused when it is read. A value below body_limit allows nothing
  // more.
  std::uint64_t most_body = 0;
  std::uint64_t body_memory = UINT64_MAX;  // bytes of bodies held at the same time; beyond it: 503
  Duration header_timeout = 10s;           // from a request's first byte to its whole head: 408
  Duration body_timeout = 10s;             // if a body arrives too slowly for this long: 408
  Duration idle_timeout = 60s;             // without a request: closed
  Duration write_timeout = 30s;            // without the client reading enough: closed
  // Bytes per second that a client must send of a body, averaged over body_timeout, and must read of a response,
  // averaged over write_timeout. Only time in which the server waits for the client counts. 0: no minimum.
  std::uint32_t slowest_client = 240;
  Duration half_close_grace = 1s;   // a client that ends its side still receives what is ready within this time
  std::size_t connections = 16384;  // connections beyond this number get a 503 and are closed
  // Beyond `connections`: close the oldest connection instead of the new one, preferring connections that await no
  // response.
  bool makes_room = false;
  int descriptors =
      INT_MAX;  // connections with this descriptor number or a higher one are closed; the rest is reserved
  TroubleLog* trouble = nullptr;  // logs that no descriptors are left for connections; outlives the server
  // For responses of the server itself, and for exchanges whose pin has no fields of its own.
  std::shared_ptr<AnswerFields> answer_fields = std::make_shared<AnswerFields>();
  bool http1 = true;                  // if false, a connection without TLS is HTTP/2 from its first byte
  bool http2 = true;                  // by prior knowledge, or over TLS if the client chooses it by ALPN
  std::uint32_t http2_streams = 100;  // concurrent requests of one connection; further ones are refused
  std::shared_ptr<const TrustedProxies> trusted_proxies = nullptr;  // null: none
  // Connections from these addresses begin with a PROXY protocol header. Null: none do.
  std::shared_ptr<const TrustedProxies> proxy_protocol = nullptr;
};

// The protocols that a server with these options offers by ALPN, the preferred one first.
[[nodiscard]] std::vector<std::string> alpn_protocols(bool http1, bool http2);

namespace h1 {
class Connection;
struct ResponseHead;
struct Workspace;
}  // namespace h1
namespace h2 {
class Engine;
}  // namespace h2

// The HTTP server of one core: its listeners, its connections and their shared state.
class Server final : net::Acceptor::Owner {
 public:
  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;            // beyond the limit of connections
    std::uint64_t open = 0;               // gauge
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

  Server(core::Reactor& reactor, Handler& dispatcher, ServerOptions options, Observer* observer = nullptr);
  Server(const Server&) = delete;
  ~Server();  // closes all open connections

  // See net::Acceptor. `secure` means TLS and requires set_tls() before.
  [[nodiscard]] Result<core::Address> listen(const core::Address& address, bool secure = false);
  [[nodiscard]] Result<core::Address> bind(const core::Address& address) { return acceptor_.bind(address); }
  [[nodiscard]] Result<void> listen_on(std::span<const net::Listening> wanted);

  // Applies to new requests; open connections stay open. Header limits apply from the next request of an HTTP/1.1
  // connection, and to new HTTP/2 connections. `most_body` is never lowered because bodies may be in transit.
  void set_options(ServerOptions options);
  // Applies to new connections; open ones keep their settings.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    tls_context_ = std::move(context);
    tls_.tickets = std::move(tickets);
  }

  // Stops accepting, closes idle connections, and lets running requests finish with `Connection: close`.
  void drain();
  // Cuts the unfinished responses whose bodies `owner` keeps alive (owner_of()), in a way that their clients can
  // detect. In HTTP/1.1 this ends the connection in the loop's next turn. In HTTP/2 it ends the stream and releases its
  // body at once.
  void cut_answers_of(const void* owner);
  // Cuts the exchanges that hold this pin in the same way, also those that have no response yet.
  void cut_pinned(const Pinned& pinned);
  // After drain(): closes what is still open. Must not be called from within a request.
  void cut();
  [[nodiscard]] bool drained() const { return draining_ && newest_ == nullptr; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // Resets Counters::bodies.peak to the current value.
  void forget_peak_of_bodies() { counters_.bodies.peak = counters_.bodies.held; }

 private:
  friend class h1::Connection;

  core::Handle& next_handle() override;
  void accepted(const core::Address& peer, bool secure) override;
  void dropped(net::Acceptor::Dropped why) noexcept override;
  // Returns false if the connection must be closed at once.
  [[nodiscard]] bool admit(h1::Connection& connection);
  void make_room();
  void open(std::unique_ptr<h1::Connection> connection);
  // Runs the connection until it is idle again, or until it has ended and is closed.
  void serve(h1::Connection& connection);
  core::Task<void> run(h1::Connection& connection);
  void close(h1::Connection& connection);
  std::unique_ptr<h1::Workspace> take_workspace();
  void give_back(std::unique_ptr<h1::Workspace> workspace);
  // An HTTP/1.1 head with the fields of every response. The views are valid until the next call.
  [[nodiscard]] h1::ResponseHead start_head(const Exchange& exchange, const Response& response, bool secure);
  h2::Engine& http2();

  core::Reactor& reactor_;
  Handler& dispatcher_;
  ServerOptions options_;
  Observer* observer_;
  Counters counters_;
  BodyBudget bodies_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;
  net::tls::CoreState tls_;
  bool draining_ = false;
  std::vector<std::unique_ptr<h1::Workspace>> spare_workspaces_;
  h1::Connection* newest_ = nullptr;  // list of all connections; the server owns them
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<h2::Engine> http2_;         // created for the first HTTP/2 connection
  std::unique_ptr<h1::Connection> prepared_;  // for the next client
  net::Acceptor acceptor_;
  core::TaskGroup running_;  // a task for each connection that is not idle
};

}  // namespace sluice::http
