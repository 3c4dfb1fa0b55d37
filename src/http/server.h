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
#include "http/handler.h"
#include "http/request.h"
#include "net/tls/context.h"

namespace sluice::http {

// Told of every answered request, for logs and metrics.
struct Completion {
  const Request* request = nullptr;  // null: what came was no request (400, 408, 431 ...)
  Method method = Method::other;     // of such a thing too, as far as it came
  bool secure = false;               // it came over TLS
  std::string_view peer;
  int status = 0;
  std::uint64_t body_bytes = 0;  // sent, without framing
  Duration duration{};           // from the head's last byte to the answer's
  bool broken = false;           // cut half-way: by the handler's stream or by the client
};
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void completed(const Completion& completion) = 0;
};

// What a client may take of the server. Times are from one sign of life to the next.
struct ServerOptions {
  std::size_t header_limit = 16 * 1024;    // bytes of request line and fields: 431
  std::size_t target_limit = 8 * 1024;     // bytes of the request's target: 414
  std::size_t field_limit = 128;           // fields of a request: 431
  std::uint64_t body_limit = 1024 * 1024;  // bytes: 413
  // What a handler may allow by BodyReader::allow_more(): a longer body is refused before there is a handler, and one
  // in between where it is read. Less than body_limit: nothing more.
  std::uint64_t most_body = 0;
  std::uint64_t body_memory = UINT64_MAX;  // bytes of bodies that are held at the same time: 503
  Duration header_timeout = 10s;           // from a request's first byte to its whole head: 408
  Duration body_timeout = 10s;             // without enough of a body coming: 408
  Duration idle_timeout = 60s;             // between two requests: closed
  Duration write_timeout = 30s;            // without the client taking enough: closed
  // Bytes a second that a client must send of a body, and take of an answer, on average of body_timeout and
  // write_timeout while it is waited for; 0: any.
  std::uint32_t slowest_client = 240;
  Duration half_close_grace = 1s;   // a client that ends its side still gets what is ready by then
  std::size_t connections = 16384;  // beyond it: 503 and closed
  // Beyond it instead: the oldest connection is closed for the new one, first of those that await no answer.
  bool makes_room = false;
  int descriptors = INT_MAX;      // a connection whose descriptor is not below it is closed: others need the rest
  TroubleLog* trouble = nullptr;  // told that there are no descriptors for connections; outlives the server
  // Of the answers that the server makes itself, and of those to exchanges that pin nothing with fields of its own.
  std::shared_ptr<AnswerFields> answer_fields = std::make_shared<AnswerFields>();
  bool http1 = true;                  // without it a plain connection is HTTP/2 from its first byte
  bool http2 = true;                  // by prior knowledge, and where a client of TLS chooses it
  std::uint32_t http2_streams = 100;  // requests of a connection at the same time: refused beyond it
};

// Where a server listens, and whether TLS is spoken there.
struct Listening {
  core::Address address;
  bool secure = false;
};

// What such a server offers by ALPN, the preferred first.
[[nodiscard]] std::vector<std::string> alpn_protocols(bool http1, bool http2);

namespace h1 {
class Connection;
struct ResponseHead;
struct Workspace;
}  // namespace h1
namespace h2 {
class Engine;
}  // namespace h2

// One core's HTTP server: listeners, connections and what they share.
class Server {
 public:
  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;        // over the limit of connections
    std::uint64_t open = 0;           // gauge
    std::uint64_t out_of_memory = 0;  // connections and streams that ended for want of memory
    BodyBudget::Counters bodies{};
    struct Tls {
      std::uint64_t handshakes = 0;
      std::uint64_t resumed = 0;  // of these
      std::uint64_t failed = 0;
      std::uint64_t timed_out = 0;
      std::uint64_t plain_http = 0;  // what came instead of a handshake
      friend bool operator==(const Tls&, const Tls&) = default;
    } tls;
    // Gauge, by whether they came over TLS and by Method: requests whose answer is waited for or sent.
    std::array<std::array<std::uint32_t, method_count>, 2> active{};

    [[nodiscard]] Readings readings() const;
  };

  Server(core::Reactor& reactor, Dispatcher& dispatcher, ServerOptions options, Observer* observer = nullptr);
  Server(const Server&) = delete;
  ~Server();  // cuts what is still open

  // Starts to accept at once. Several cores may listen on the same address. `secure`: with TLS; set_tls() comes first.
  [[nodiscard]] Result<core::Address> listen(const core::Address& address, bool secure = false);
  // Binds the address, unless it is bound already; clients are refused there until listen_on() has it.
  [[nodiscard]] Result<core::Address> bind(const core::Address& address);
  // From now on the server listens on these addresses, all of them bound, and on no others. Removed ones still accept
  // the clients that wait there. An error: one of them cannot be listened on; the others are.
  [[nodiscard]] Result<void> listen_on(std::span<const Listening> wanted);

  // For what begins from now on; open connections go on. Limits of headers hold from the next request of an HTTP/1.1
  // connection, and for new connections of HTTP/2. `most_body` is never lowered: bodies may be on their way.
  void set_options(ServerOptions options);
  // For connections from now on; open ones go on as they began.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    tls_context_ = std::move(context);
    tls_.tickets = std::move(tickets);
  }

  // Stops accepting, closes what is idle, and lets running requests finish with `Connection: close`.
  void drain();
  // Ends the answers whose bodies `owner` keeps alive (owner_of()) and that their clients have not taken, so that these
  // can tell. HTTP/1.1: the connection, in the loop's next turn. HTTP/2: the stream, and its body is let go of at once.
  void cut_answers_of(const void* owner);
  // Likewise the exchanges that hold it, also those that have no answer yet.
  void cut_pinned(const Pinned& pinned);
  // After drain(): what is still open is open no longer. Not from within a request.
  void cut();
  [[nodiscard]] bool drained() const { return draining_ && newest_ == nullptr; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // Counters::bodies.peak is from now on.
  void forget_peak_of_bodies() { counters_.bodies.peak = counters_.bodies.held; }

 private:
  friend class h1::Connection;
  struct Listener;

  Result<void> start(Listener& listener);
  void end(Listener& listener);
  core::Task<void> accept(Listener& listener);
  void tell_of_descriptors();
  // False: the connection is closed at once.
  [[nodiscard]] bool admit(h1::Connection& connection);
  void make_room();
  void open(std::unique_ptr<h1::Connection> connection);
  // Runs it until it is idle again, or has ended and is closed.
  void serve(h1::Connection& connection);
  core::Task<void> run(h1::Connection& connection);
  void close(h1::Connection& connection);
  std::unique_ptr<h1::Workspace> take_workspace();
  void give_back(std::unique_ptr<h1::Workspace> workspace);
  // A head of HTTP/1.1 with what every answer has. Views until the next call.
  [[nodiscard]] h1::ResponseHead start_head(const Exchange& exchange, const Response& response, bool secure);
  h2::Engine& http2();

  core::Reactor& reactor_;
  Dispatcher& dispatcher_;
  ServerOptions options_;
  Observer* observer_;
  Counters counters_;
  BodyBudget bodies_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;
  net::tls::CoreState tls_;
  bool draining_ = false;
  std::vector<std::unique_ptr<h1::Workspace>> spare_workspaces_;
  h1::Connection* newest_ = nullptr;  // of all connections, which are the server's
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<h2::Engine> http2_;  // once there is a connection for it
  std::vector<std::unique_ptr<Listener>> listeners_;
  core::TaskGroup accepting_;
  core::TaskGroup running_;  // a task for each connection that is not idle
};

}  // namespace sluice::http
