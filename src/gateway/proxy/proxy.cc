#include "gateway/proxy/proxy.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gateway/proxy/forwarding.h"
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

// A request may pass this process several times on purpose, as one for another host.
constexpr std::size_t most_passes = 3;

// The answer while all servers are removed or drained: the probes of a server need this long to bring it back.
Response without_server(const std::optional<HealthOptions>& health) {
  Response response = http::problem(503, "No server behind this one is available.");
  const auto wait = health ? std::chrono::ceil<std::chrono::seconds>(health->every * health->rise) : 1s;
  response.fields.add_owned("Retry-After", std::to_string(wait.count()));
  return response;
}

// An event stream may last longer than the timeout of its route.
bool is_event_stream(const ResponseHead& head) {
  const std::string_view type = only_field(head.fields, "content-type");
  return http::same_name(type.substr(0, type.find(';')), "text/event-stream");
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
      attempt_.server().trouble->met(overdue_text);
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
                               http::Standing(exchange));
  return response;
}

Response Proxy::answer(Forwarding& way, const ResponseHead& head, Pool::Lease lease) const {
  const http::Request& request = way.request();
  // A client over HTTP/2 would take this status as its WebSocket being open.
  if (request.method == http::Method::connect && head.status < 300) {
    return http::problem(502, "The server behind this one does not speak WebSocket here.");
  }
  const Upstream::Server& server = way.server();
  Response response;
  response.status = head.status;
  response.tag_takes_suffix = true;
  forward_fields(head.fields, response.fields);
  restore_references({.prefix_of = options_.change,
                      .server_host = options_.rewrite_location ? server.host : std::string_view{},
                      .server_is_secure = server.is_secure},
                     request, response.fields);
  if (options_.ours != nullptr) remove_ours(*options_.ours, response.fields);
  if (way.until() != never && is_event_stream(head)) lease->lift_deadline();
  auto responding = std::make_unique<Responding>(std::move(way.attempt()), std::move(lease));
  responding->set_size(head, request.method);
  response.body = std::move(responding);
  return response;
}

Task<Response> Proxy::forward(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  Forwarding way(*upstream_, *shared_, options_, exchange);
  // If the body breaks off or there is no room for it, the connection sends the answer itself.
  if (way.reads_body_first() && !co_await way.read_body()) co_return http::problem(400);
  if (!way.choose()) co_return without_server(shared_->options.health);
  const ForwardedRequest::Options how{.change = options_.change,
                                      .preserve_host = options_.preserve_host,
                                      .keeps_slashes = options_.keeps_slashes,
                                      .upgrade = may_upgrade(request.upgrade) ? request.upgrade : std::string_view{},
                                      .body_size = way.known_size(),
                                      .client_field = options_.client_field,
                                      .codings = options_.codings};
  for (;;) {
    std::optional<Failure> failure;
    if (way.must_enter()) [[unlikely]]
      failure = way.entered(co_await way.attempt().enter(way.until()));
    if (!failure) {
      Upstream::Server& server = way.server();
      auto lease = co_await server.pool.take(way.which(), way.until());
      failure = way.connected(lease);
      const http::client::RequestHead* asked = nullptr;
      if (!failure) {
        asked = forwarded_.make(request, server.host, how);
        if (asked == nullptr) failure = Failure{Fault::bad_path};
      }
      if (!failure) {
        ++server.requests;
        const std::string key(forwarded_.websocket_key());
        const auto head = co_await (*lease)->ask(*asked, way.body(), way.until(), way.interim());
        failure = way.asked(head, *lease, key);
        if (!failure && (*head)->status == 101) {
          co_return change_protocol(exchange, **head, std::move(way.attempt()), std::move(*lease));
        }
        if (!failure) {
          if (way.tries_again_for((*head)->status)) continue;
          co_return answer(way, **head, std::move(*lease));
        }
      }
    }
    if (auto settled = way.settle(*failure)) co_return std::move(*settled);
  }
}

}  // namespace sluice::gateway
