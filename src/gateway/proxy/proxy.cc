#include "gateway/proxy/proxy.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gateway/proxy/kept_body.h"
#include "gateway/proxy/passed_on.h"
#include "gateway/proxy/passing.h"
#include "gateway/proxy/tunnel.h"
#include "http/accept.h"
#include "http/h1/parser.h"
#include "http/h1/scan.h"
#include "http/identity.h"
#include "http/websocket/handshake.h"

namespace sluice::gateway {
namespace {

using core::Async;
using core::Task;
using http::Response;
using http::client::Pool;
using http::client::ResponseHead;
using Kind = http::h1::BodyFraming::Kind;
using Failure = PassedOn::Failure;

// A request may pass this process several times on purpose, as one for another host.
constexpr std::size_t most_passes = 3;

// RFC 9110, 9.2.2. CONNECT is for a WebSocket, which is a GET to the server.
bool is_idempotent(http::Method method) {
  return method == http::Method::get || method == http::Method::head || method == http::Method::put ||
         method == http::Method::delete_ || method == http::Method::options || method == http::Method::connect;
}

// The only field with that name; empty if absent or repeated.
std::string_view find(std::span<const http::Field> fields, std::string_view name) {
  std::string_view found;
  int count = 0;
  for (const http::Field& field : fields) {
    if (!http::same_name(field.name, name)) continue;
    found = field.value;
    ++count;
  }
  return count == 1 ? found : std::string_view{};
}

std::string cause_of(const Error& error, const http::client::Connection& connection) {
  if (!connection.tls_failure().empty()) return "TLS: " + std::string(connection.tls_failure());
  if (connection.reason() != http::h1::Reason::none) return std::string(describe(connection.reason()));
  return error.text();
}

bool is_invalid(const http::client::Connection& connection) {
  return connection.tls_failure().empty() && connection.reason() != http::h1::Reason::none;
}

// The reason for the log.
std::string describe_failure(const Error& error, const http::client::Connection& connection) {
  return (is_invalid(connection) ? "it gave no valid response: " : "it gave no response: ") +
         cause_of(error, connection);
}

constexpr std::string_view overdue = "a request took longer than the `timeout` of its route";

Response answer_for(const Error& error) {
  if (error.code == Errc::timed_out) return http::problem(504, "The server behind this one did not answer in time.");
  return http::problem(502, "The server behind this one gave no answer.");
}

// The answer while all servers are removed or drained: the probes of a server need this long to bring it back.
Response without_server(const std::optional<HealthOptions>& health) {
  Response response = http::problem(503, "No server behind this one is available.");
  const auto wait = health ? std::chrono::ceil<std::chrono::seconds>(health->every * health->rise) : 1s;
  response.fields.add_owned("Retry-After", std::to_string(wait.count()));
  return response;
}

// The answer while as many connections to the servers are busy as `connections` allows.
Response without_connection() {
  Response response = http::problem(503, "The servers behind this one are busy.");
  response.fields.add_trusted("Retry-After", "1");
  return response;
}

// An event stream may last longer than the timeout of its route.
bool is_event_stream(const ResponseHead& head) {
  const std::string_view type = find(head.fields, "content-type");
  return http::same_name(type.substr(0, type.find(';')), "text/event-stream");
}

// Whether the connection failed because this system lacks resources.
bool is_ours(const Error& error) {
  if (error.code != Errc::system) return false;
  switch (error.detail) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL:
      return true;
    default:
      return false;
  }
}

// Whether the server has switched to a protocol that was requested.
bool is_agreed(const http::Request& request, const ResponseHead& head, std::string_view websocket_key) {
  if (!http::lists_token(request.upgrade, head.upgrade)) return false;
  if (!http::same_name(head.upgrade, "websocket")) return true;
  // With a wrong accept value no WebSocket has begun: the client may have made another program return a 101.
  return !websocket_key.empty() &&
         find(head.fields, "sec-websocket-accept") == http::websocket::accept_for(websocket_key);
}

}  // namespace

// A server's response: keeps the memory that its fields refer to, and streams the body.
class Proxy::Responding final : public http::BodySource {
 public:
  Responding(Upstream::Attempt attempt, Pool::Lease lease) : attempt_(std::move(attempt)), lease_(std::move(lease)) {}

  // For a response to HEAD: the size of the response to GET.
  void set_size(const ResponseHead& head, http::Method method) {
    const bool is_empty = head.body.kind == Kind::none && method != http::Method::head;
    size_ = is_empty ? std::optional<std::uint64_t>(0) : head.length;
  }

  [[nodiscard]] Async<Result<Progress>> pull(Buffer& out) override {
    auto reading = lease_->read(out);
    if (!reading.ready()) return wait(reading.take_task());
    note(reading.get());
    return reading;
  }
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }
  [[nodiscard]] std::span<const http::Field> trailers() const override { return trailers_.items(); }

 private:
  Task<Result<Progress>> wait(Task<Result<Progress>> reading) {
    auto progress = co_await std::move(reading);
    note(progress);
    co_return progress;
  }
  void note(const Result<Progress>& progress) {
    if (!progress && progress.error().code == Errc::timed_out && lease_->is_overdue()) {
      attempt_.server().trouble->met(overdue);
    } else if (!progress) {
      ++attempt_.server().failures;
      attempt_.server().trouble->met("its response broke off: " + cause_of(progress.error(), *lease_));
    }
    if (progress && *progress == Progress::done) forward_trailers(lease_->trailers(), trailers_);
  }

  Upstream::Attempt attempt_;
  Pool::Lease lease_;
  std::optional<std::uint64_t> size_;
  http::FieldList trailers_;
};

Async<Response> Proxy::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  if (count_passes(request) >= most_passes) {
    return http::problem(508, "The request has come back to this server again and again.");
  }
  if (request.method == http::Method::connect && !http::same_name(request.upgrade, "websocket")) {
    return http::problem(501, "The only protocol that is passed on over HTTP/2 is WebSocket.");
  }
  if (!request.upgrade.empty() && http::lists_token(request.upgrade, "websocket") && !may_upgrade("websocket")) {
    return http::problem(501, "This path has no WebSocket.");
  }
  return forward(exchange);
}

bool Proxy::may_upgrade(std::string_view protocols) const {
  bool all = true;
  http::h1::for_each_element(protocols, [&](std::string_view one) {
    all &= std::ranges::any_of(options_.upgrade, [&](const auto& name) { return http::same_name(name.value, one); });
  });
  return all;
}

Response Proxy::change_protocol(const http::Exchange& exchange, const ResponseHead& head, Upstream::Attempt attempt,
                                Pool::Lease connection) const {
  const http::Request& request = exchange.request;
  const bool over_http2 = request.version == http::Version::http2;
  Response response;
  response.status = over_http2 ? 200 : 101;
  http::FieldList passed;
  forward_fields(head.fields, passed);
  if (options_.ours != nullptr) remove_ours(*options_.ours, passed);
  // Copied, because the connection's memory belongs to the tunnel from here on.
  for (const auto& [name, value] : passed.items()) {
    if (http::same_name(name, "content-length")) continue;
    if (over_http2 && http::same_name(name, "sec-websocket-accept")) continue;
    response.fields.add_copy(name, value);
  }
  if (!over_http2) response.fields.add_copy("Upgrade", head.upgrade);
  const UpstreamOptions& options = shared_->options;
  response.upgrade =
      std::make_unique<Tunnel>(upstream_, std::move(attempt), std::move(connection), route_,
                               Tunnel::Timeouts{.silence = options.tunnel_timeout,
                                                .half_closed = std::min(options.tunnel_timeout, options.idle_timeout)},
                               http::expires_s_of(exchange));
  return response;
}

Task<Response> Proxy::forward(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  Upstream& upstream = *upstream_;
  const bool is_repeatable = is_idempotent(request.method);
  http::BodyReader* body = request.body;
  std::optional<KeptBody> kept;
  if (body != nullptr && options_.buffer_request) {
    kept.emplace(*body, 0);
    // If the body breaks off or there is no room for it, the connection sends the answer itself.
    if (!co_await kept->read_whole(request.field("content-length"))) co_return http::problem(400);
    body = kept->size() != 0 ? &*kept : nullptr;
  } else if (body != nullptr && is_repeatable && shared_->options.retries.tries != 0) {
    const auto size = http::h1::parse_content_length(request.field("content-length"));
    if (size && *size <= KeptBody::most_bytes) body = &kept.emplace(*body, static_cast<std::size_t>(*size));
  }
  const bool may_repeat = is_repeatable && (body == nullptr || kept);
  const ForwardedRequest::Options how{
      .change = options_.change,
      .preserve_host = options_.preserve_host,
      .keeps_slashes = options_.keeps_slashes,
      .upgrade = may_upgrade(request.upgrade) ? request.upgrade : std::string_view{},
      .body_size = kept && options_.buffer_request ? std::optional(kept->size()) : std::nullopt,
      .client_field = options_.client_field,
      .codings = options_.codings};
  Upstream::Tried tried;
  auto first = upstream.begin(*shared_, exchange);
  if (!first) co_return without_server(shared_->options.health);
  Upstream::Attempt attempt = std::move(*first);
  const core::Reactor& reactor = upstream.reactor();
  const Instant begin = reactor.now();
  const Instant until = options_.timeout > Duration{} ? begin + options_.timeout : never;
  PassedOn& passed_on = exchange.attributes.set(PassedOn(attempt.server()));
  PassedInterim interim(request.interim, options_.ours);
  PassedBody passed_body(exchange, options_.client_field);
  if (body == request.body && body != nullptr) body = &passed_body;
  bool fresh = false;
  Instant chosen = begin;
  // Moves `attempt` to another server. Returns false if no server or no time is left.
  const auto move_on = [&](bool is_free) {
    const Instant now = reactor.now();
    if (now >= until) return false;
    tried.add(attempt.server().id);
    auto next = upstream.begin_again(*shared_, exchange, tried, is_free);
    if (!next) return false;
    ++attempt.server().retries;
    attempt = std::move(*next);
    passed_on.move_to(attempt.server());
    chosen = now;
    fresh = false;
    if (kept) kept->rewind();
    return true;
  };
  const auto is_overdue = [&](const Error& error) { return error.code == Errc::timed_out && reactor.now() >= until; };
  // The time that the route allows is over, which is not a failure of the server.
  const auto give_up = [&](const Error& error) {
    attempt.server().trouble->met(overdue);
    passed_on.failure = Failure::timeout;
    // The client gets its answer even if it still sends the body.
    if (request.body != nullptr) request.body->abandon();
    return answer_for(error);
  };
  for (;;) {
    Upstream::Server& server = attempt.server();
    if (upstream.limits_connections() && !attempt.has_entered()) [[unlikely]] {
      const auto entry = co_await attempt.enter(until);
      if (entry != Upstream::Attempt::Entry::granted) passed_on.failure = Failure::busy;
      if (entry == Upstream::Attempt::Entry::queue_full && move_on(true)) continue;
      if (reactor.now() >= until) co_return give_up({Errc::timed_out});
      if (entry != Upstream::Attempt::Entry::granted) co_return without_connection();
    }
    auto lease = co_await server.pool.take(fresh ? Pool::Which::fresh : Pool::Which::any, until);
    passed_on.to_head = reactor.now() - begin;
    if (!lease) {
      if (is_ours(lease.error())) co_return http::problem(503);
      if (is_overdue(lease.error())) co_return give_up(lease.error());
      server.trouble->attempt_failed("it cannot be reached: " + server.pool.describe(lease.error()));
      attempt.judge(false);
      passed_on.failure = Failure::connect;
      if (move_on(true)) continue;
      server.trouble->request_failed();
      co_return answer_for(lease.error());
    }
    http::client::Connection& connection = **lease;
    const http::client::RequestHead* const asked = forwarded_.make(request, server.host, how);
    if (asked == nullptr) co_return http::problem(400, "This path is not passed on to a server.");
    ++server.requests;
    const std::string key(forwarded_.websocket_key());
    const auto head = co_await connection.ask(*asked, body, until, interim.sink());
    const Instant end = reactor.now();
    passed_on.to_head = end - begin;
    if (head) server.response_times.add(end - chosen);
    if (head && (*head)->status == 101) {
      if (!is_agreed(request, **head, key)) {
        server.trouble->attempt_failed("it gave no valid response: it changed to a protocol that it was not asked for");
        attempt.judge(false);
        passed_on.failure = Failure::invalid_response;
        if (may_repeat && move_on(false)) continue;
        server.trouble->request_failed();
        co_return http::problem(502, "The server behind this one gave no valid answer.");
      }
      server.trouble->got_through();
      attempt.judge(true);
      co_return change_protocol(exchange, **head, std::move(attempt), std::move(*lease));
    }
    if (head) {
      const int status = (*head)->status;
      server.trouble->got_through();
      attempt.judge(!shared_->failures.contains(status));
      if (may_repeat && shared_->retry_on.contains(status)) {
        passed_on.failure = Failure::status;
        if (move_on(false)) continue;
      }
      // A client over HTTP/2 would take this status as its WebSocket being open.
      if (request.method == http::Method::connect && status < 300) {
        co_return http::problem(502, "The server behind this one does not speak WebSocket here.");
      }
      Response response;
      response.status = status;
      response.tag_takes_suffix = true;
      forward_fields((*head)->fields, response.fields);
      restore_references({.prefix_of = options_.change,
                          .server_host = options_.rewrite_location ? server.host : std::string_view{},
                          .server_is_secure = server.is_secure},
                         request, response.fields);
      if (options_.ours != nullptr) remove_ours(*options_.ours, response.fields);
      if (until != never && is_event_stream(**head)) connection.lift_deadline();
      auto responding = std::make_unique<Responding>(std::move(attempt), std::move(*lease));
      responding->set_size(**head, request.method);
      response.body = std::move(responding);
      co_return response;
    }
    // If the client's body is invalid, the connection sends the answer itself.
    if (connection.body_failed()) co_return http::problem(400);
    // The request was invalid, so nothing was sent.
    if (head.error().code == Errc::malformed && connection.reason() == http::h1::Reason::none &&
        connection.tls_failure().empty()) {
      co_return http::problem(400);
    }
    if (is_ours(head.error())) co_return http::problem(503);
    if (is_overdue(head.error())) co_return give_up(head.error());
    // The server closed an idle connection just as the request was sent, which is not a failure of the server.
    const bool was_stale = lease->was_used() && head.error().code == Errc::closed && connection.nothing_came();
    if (was_stale && !fresh && may_repeat) {
      fresh = true;
      if (kept) kept->rewind();
      continue;
    }
    server.trouble->attempt_failed(describe_failure(head.error(), connection));
    passed_on.failure = is_invalid(connection)                 ? Failure::invalid_response
                        : head.error().code == Errc::timed_out ? Failure::timeout
                                                               : Failure::no_response;
    // A server that does not wait for a slow client's body is healthy.
    const bool has_left_a_client = head.error().code == Errc::closed && connection.waited_for_body();
    if (!was_stale && !has_left_a_client) attempt.judge(false);
    if (may_repeat && move_on(false)) continue;
    server.trouble->request_failed();
    co_return answer_for(head.error());
  }
}

}  // namespace sluice::gateway
