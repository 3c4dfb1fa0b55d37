#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/task.h"
#include "gateway/proxy/kept_body.h"
#include "gateway/proxy/passed_on.h"
#include "gateway/proxy/passing.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/upstream.h"
#include "http/client/connection.h"
#include "http/client/pool.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::gateway {

// Why one try to get a server's response gave none. rule_of() says what follows from each.
enum class Fault : std::uint8_t {
  bad_body,          // the client's body is invalid or breaks off; its connection sends the answer itself
  bad_request,       // the request cannot be written
  bad_path,          // the path must not be passed on
  no_resources,      // this process has no descriptors, ports or memory
  overdue,           // the `timeout` of the route is over
  full,              // all connections that `connections` allows are busy, and so is the queue for them
  late,              // likewise, and none became free in time
  unreachable,       // no connection can be made
  connect_timeout,   // likewise, for want of an answer
  stale,             // it closed an idle connection just as the request was sent, which may be repeated
  closed,            // it closed the connection, which is not its failure: idle, or the client's body was slow
  no_response,       // it closed or reset the connection, or TLS failed
  timeout,           // it did not respond in time
  invalid_response,  // it does not speak HTTP
  invalid_upgrade    // it changed to a protocol that it was not asked for
};

struct Rule {
  enum class Retry : std::uint8_t {
    never,
    repeatable,  // at another server, if the request may be repeated
    always,      // at another server: this one has not seen the request
    same         // at the same server, over a new connection
  };
  Retry retry;
  bool counts;              // as a failure of the server
  PassedOn::Failure name;   // in logs; none: it is not about the server
  int status;               // of the answer if there is no other try
  std::string_view detail;  // of the answer; empty: the default for the status
};
[[nodiscard]] Rule rule_of(Fault fault);

// Why a connection failed, for the log.
[[nodiscard]] std::string cause_of(const Error& error, const http::client::Connection& connection);
// The only field with that name; empty if absent or repeated.
[[nodiscard]] std::string_view only_field(std::span<const http::Field> fields, std::string_view name);
inline constexpr std::string_view overdue_text = "a request took longer than the `timeout` of its route";

struct Failure {
  Fault fault;
  std::string log{};  // what the server did; empty: nothing that an operator must know
};

// One request on its way through the phases of Proxy::forward(): read_body, choose, enter, connect, ask. Lives in the
// frame of that coroutine.
class Forwarding {
 public:
  // All arguments outlive this object.
  Forwarding(Upstream& upstream, const SharedUpstream& shared, const ProxyOptions& options, http::Exchange& exchange);
  Forwarding(const Forwarding&) = delete;

  [[nodiscard]] const http::Request& request() const { return exchange_.request; }
  [[nodiscard]] Upstream::Attempt& attempt() { return *attempt_; }
  [[nodiscard]] Upstream::Server& server() const { return attempt_->server(); }
  [[nodiscard]] Instant until() const { return until_; }
  [[nodiscard]] http::client::Pool::Which which() const {
    return is_fresh_ ? http::client::Pool::Which::fresh : http::client::Pool::Which::any;
  }
  [[nodiscard]] http::BodyReader* body() const { return body_; }
  // The size of the body if all of it has been read.
  [[nodiscard]] std::optional<std::uint64_t> known_size() const;
  [[nodiscard]] http::InterimSink* interim() { return interim_.sink(); }

  // Whether the whole body must be read before a server is chosen.
  [[nodiscard]] bool reads_body_first() const { return options_.buffer_request && exchange_.request.body != nullptr; }
  // Returns false if the body breaks off or there is no room for it.
  [[nodiscard]] core::Task<bool> read_body();
  // Returns false if there is no server.
  [[nodiscard]] bool choose();
  // Whether the attempt must enter() its server.
  [[nodiscard]] bool must_enter() const { return upstream_.limits_connections() && !attempt_->has_entered(); }

  // The ends of the phases. Each returns its failure, if there is one.
  [[nodiscard]] std::optional<Failure> entered(Upstream::Attempt::Entry entry) const;
  [[nodiscard]] std::optional<Failure> connected(const Result<http::client::Pool::Lease>& lease);
  [[nodiscard]] std::optional<Failure> asked(const Result<const http::client::ResponseHead*>& head,
                                             const http::client::Pool::Lease& lease, std::string_view websocket_key);
  // Returns true if the status makes another try.
  [[nodiscard]] bool tries_again_for(int status);

  // Draws all consequences of a failure. Returns the answer, or nothing if there is another try, with attempt().
  [[nodiscard]] std::optional<http::Response> settle(const Failure& failure);

 private:
  // Chooses another server. Returns false if no server or no time is left. `is_free`: see Upstream::begin_again().
  bool move_on(bool is_free);
  bool tries_again(Rule::Retry retry);
  void count_time() { passed_on_->to_head = upstream_.reactor().now() - begin_; }

  Upstream& upstream_;
  const SharedUpstream& shared_;
  const ProxyOptions& options_;
  http::Exchange& exchange_;
  http::BodyReader* body_;  // null: none
  std::optional<KeptBody> kept_;
  const bool is_idempotent_;
  bool may_repeat_ = false;
  bool is_fresh_ = false;  // the next connection must be new
  Upstream::Tried tried_;
  std::optional<Upstream::Attempt> attempt_;
  PassedOn* passed_on_ = nullptr;
  Instant begin_{};
  Instant chosen_{};
  Instant until_ = never;
  PassedInterim interim_;
  PassedBody passed_body_;
};

}  // namespace sluice::gateway
