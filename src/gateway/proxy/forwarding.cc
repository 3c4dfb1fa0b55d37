#include "gateway/proxy/forwarding.h"

#include <cerrno>
#include <utility>

#include "http/accept.h"
#include "http/h1/parser.h"
#include "http/websocket/handshake.h"

namespace sluice::gateway {
namespace {

using http::client::Connection;
using http::client::Pool;
using http::client::ResponseHead;

// RFC 9110, 9.2.2. CONNECT is for a WebSocket, which is a GET to the server.
bool is_idempotent(http::Method method) {
  return method == http::Method::get || method == http::Method::head || method == http::Method::put ||
         method == http::Method::delete_ || method == http::Method::options || method == http::Method::connect;
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

bool is_invalid(const Connection& connection) {
  return connection.tls_failure().empty() && connection.reason() != http::h1::Reason::none;
}

// Whether the server has switched to a protocol that was requested.
bool is_agreed(const http::Request& request, const ResponseHead& head, std::string_view websocket_key) {
  if (!http::lists_token(request.upgrade, head.upgrade)) return false;
  if (!http::same_name(head.upgrade, "websocket")) return true;
  // With a wrong accept value no WebSocket has begun: the client may have made another program return a 101.
  return !websocket_key.empty() &&
         only_field(head.fields, "sec-websocket-accept") == http::websocket::accept_for(websocket_key);
}

}  // namespace

std::string cause_of(const Error& error, const Connection& connection) {
  if (!connection.tls_failure().empty()) return "TLS: " + std::string(connection.tls_failure());
  if (connection.reason() != http::h1::Reason::none) return std::string(describe(connection.reason()));
  return error.text();
}

std::string_view only_field(std::span<const http::Field> fields, std::string_view name) {
  std::string_view found;
  int count = 0;
  for (const http::Field& field : fields) {
    if (!http::same_name(field.name, name)) continue;
    found = field.value;
    ++count;
  }
  return count == 1 ? found : std::string_view{};
}

// A fault without a rule does not compile.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
Rule rule_of(Fault fault) {
  using Retry = Rule::Retry;
  using Name = PassedOn::Failure;
  constexpr std::string_view busy = "The servers behind this one are busy.";
  constexpr std::string_view gave_none = "The server behind this one gave no answer.";
  constexpr std::string_view was_late = "The server behind this one did not answer in time.";
  switch (fault) {
    case Fault::bad_body:
    case Fault::bad_request:
      return {Retry::never, false, Name::none, 400, {}};
    case Fault::bad_path:
      return {Retry::never, false, Name::none, 400, "This path is not passed on to a server."};
    case Fault::no_resources:
      return {Retry::never, false, Name::none, 503, {}};
    case Fault::overdue:
      return {Retry::never, false, Name::timeout, 504, was_late};
    case Fault::full:
      return {Retry::always, false, Name::busy, 503, busy};
    case Fault::late:
      return {Retry::never, false, Name::busy, 503, busy};
    case Fault::unreachable:
      return {Retry::always, true, Name::connect, 502, gave_none};
    case Fault::connect_timeout:
      return {Retry::always, true, Name::connect, 504, was_late};
    case Fault::stale:
      return {Retry::same, false, Name::none, 502, gave_none};
    case Fault::closed:
      return {Retry::repeatable, false, Name::no_response, 502, gave_none};
    case Fault::no_response:
      return {Retry::repeatable, true, Name::no_response, 502, gave_none};
    case Fault::timeout:
      return {Retry::repeatable, true, Name::timeout, 504, was_late};
    case Fault::invalid_response:
      return {Retry::repeatable, true, Name::invalid_response, 502, gave_none};
    case Fault::invalid_upgrade:
      return {Retry::repeatable, true, Name::invalid_response, 502, "The server behind this one gave no valid answer."};
  }
  std::unreachable();
}
#pragma GCC diagnostic pop

Forwarding::Forwarding(Upstream& upstream, const SharedUpstream& shared, const ProxyOptions& options,
                       http::Exchange& exchange)
    : upstream_(upstream),
      shared_(shared),
      options_(options),
      exchange_(exchange),
      body_(exchange.request.body),
      is_idempotent_(is_idempotent(exchange.request.method)),
      interim_(exchange.request.interim, options.ours),
      passed_body_(exchange, options.client_field) {
  if (body_ == nullptr || options.buffer_request) return;
  if (is_idempotent_ && shared.options.retries.tries != 0) {
    const auto size = http::h1::parse_content_length(exchange.request.field("content-length"));
    if (size && *size <= KeptBody::most_bytes) kept_.emplace(*body_, static_cast<std::size_t>(*size));
  }
  body_ = kept_ ? static_cast<http::BodyReader*>(&*kept_) : &passed_body_;
}

std::optional<std::uint64_t> Forwarding::known_size() const {
  return kept_ && options_.buffer_request ? std::optional(kept_->size()) : std::nullopt;
}

core::Task<bool> Forwarding::read_body() {
  kept_.emplace(*body_, 0);
  if (!co_await kept_->read_whole(exchange_.request.field("content-length"))) co_return false;
  body_ = kept_->size() != 0 ? &*kept_ : nullptr;
  co_return true;
}

bool Forwarding::choose() {
  may_repeat_ = is_idempotent_ && (body_ == nullptr || kept_);
  attempt_ = upstream_.begin(shared_, exchange_);
  if (!attempt_) return false;
  begin_ = chosen_ = upstream_.reactor().now();
  if (options_.timeout > Duration{}) until_ = begin_ + options_.timeout;
  passed_on_ = &exchange_.attributes.set(PassedOn(server()));
  return true;
}

std::optional<Failure> Forwarding::entered(Upstream::Attempt::Entry entry) const {
  using Entry = Upstream::Attempt::Entry;
  if (upstream_.reactor().now() >= until_) return Failure{Fault::overdue};
  if (entry == Entry::granted) return std::nullopt;
  return Failure{entry == Entry::queue_full ? Fault::full : Fault::late};
}

std::optional<Failure> Forwarding::connected(const Result<Pool::Lease>& lease) {
  count_time();
  if (lease) return std::nullopt;
  const Error& error = lease.error();
  if (is_ours(error)) return Failure{Fault::no_resources};
  const bool timed_out = error.code == Errc::timed_out;
  if (timed_out && upstream_.reactor().now() >= until_) return Failure{Fault::overdue};
  return Failure{timed_out ? Fault::connect_timeout : Fault::unreachable,
                 "it cannot be reached: " + server().pool.describe(error)};
}

std::optional<Failure> Forwarding::asked(const Result<const ResponseHead*>& head, const Pool::Lease& lease,
                                         std::string_view websocket_key) {
  count_time();
  if (head) {
    server().response_times.add(upstream_.reactor().now() - chosen_);
    if ((*head)->status == 101 && !is_agreed(exchange_.request, **head, websocket_key)) {
      return Failure{Fault::invalid_upgrade,
                     "it gave no valid response: it changed to a protocol that it was not asked for"};
    }
    server().trouble->got_through();
    attempt_->judge(!shared_.failures.contains((*head)->status));
    return std::nullopt;
  }
  const Error& error = head.error();
  Connection& connection = *lease;
  if (connection.body_failed()) return Failure{Fault::bad_body};
  const bool is_plain = connection.tls_failure().empty() && connection.reason() == http::h1::Reason::none;
  if (error.code == Errc::malformed && is_plain) return Failure{Fault::bad_request};  // nothing was sent
  if (is_ours(error)) return Failure{Fault::no_resources};
  const bool timed_out = error.code == Errc::timed_out;
  if (timed_out && upstream_.reactor().now() >= until_) return Failure{Fault::overdue};
  const bool is_closed = error.code == Errc::closed;
  const bool was_stale = is_closed && lease.was_used() && connection.nothing_came();
  if (was_stale && !is_fresh_ && may_repeat_) return Failure{Fault::stale};
  const Fault fault = is_invalid(connection)                                     ? Fault::invalid_response
                      : timed_out                                                ? Fault::timeout
                      : was_stale || (is_closed && connection.waited_for_body()) ? Fault::closed
                                                                                 : Fault::no_response;
  return Failure{fault, (is_invalid(connection) ? "it gave no valid response: " : "it gave no response: ") +
                            cause_of(error, connection)};
}

bool Forwarding::tries_again_for(int status) {
  if (!may_repeat_ || !shared_.retry_on.contains(status)) return false;
  passed_on_->failure = PassedOn::Failure::status;
  return move_on(false);
}

std::optional<http::Response> Forwarding::settle(const Failure& failure) {
  const Rule rule = rule_of(failure.fault);
  const bool is_logged = !failure.log.empty();
  if (is_logged) server().trouble->attempt_failed(failure.log);
  if (rule.counts) attempt_->judge(false);
  if (rule.name != PassedOn::Failure::none) passed_on_->failure = rule.name;
  if (tries_again(rule.retry)) return std::nullopt;
  if (is_logged) server().trouble->request_failed();
  if (failure.fault == Fault::overdue) {
    server().trouble->met(overdue_text);
    // The client gets its answer even if it still sends the body.
    if (exchange_.request.body != nullptr) exchange_.request.body->abandon();
  }
  http::Response answer = http::problem(rule.status, rule.detail);
  if (rule.name == PassedOn::Failure::busy) answer.fields.add_trusted("Retry-After", "1");
  return answer;
}

bool Forwarding::tries_again(Rule::Retry retry) {
  switch (retry) {
    case Rule::Retry::never:
      return false;
    case Rule::Retry::repeatable:
      return may_repeat_ && move_on(false);
    case Rule::Retry::always:
      return move_on(true);
    case Rule::Retry::same:
      is_fresh_ = true;
      if (kept_) kept_->rewind();
      return true;
  }
  std::unreachable();
}

bool Forwarding::move_on(bool is_free) {
  const Instant now = upstream_.reactor().now();
  if (now >= until_) return false;
  tried_.add(server().id);
  auto next = upstream_.begin_again(shared_, exchange_, tried_, is_free);
  if (!next) return false;
  ++server().retries;
  attempt_ = std::move(*next);
  passed_on_->move_to(server());
  chosen_ = now;
  is_fresh_ = false;
  if (kept_) kept_->rewind();
  return true;
}

}  // namespace sluice::gateway
