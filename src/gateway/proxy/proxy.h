#pragma once

#include <memory>
#include <utility>

#include "gateway/proxy/fields.h"
#include "gateway/proxy/upstream.h"
#include "http/answer_fields.h"
#include "http/handler.h"

namespace sluice::gateway {

// [[route]]: forwards requests to the servers of an upstream, and their responses back. Bodies are streamed both ways:
// data is read from one side only as fast as the other side takes it.
//
// An upgrade that the server accepts becomes a Tunnel. A WebSocket over HTTP/2 (RFC 8441) is requested from the server
// over HTTP/1.1. Bytes that a client sends after its request for an upgrade are sent to the server only after the
// server's 101. If the server does not upgrade, they are the client's next request.
//
// If no connection to a server can be made, the request is sent to another server, because the first one cannot have
// seen it. After any other failure before the response, the request is sent to another server only if it may be
// repeated: its method is idempotent, and it has no body or its body was kept.
class Proxy final : public http::Handler {
 public:
  // `shared`: the upstream in the configuration of this route. `route` identifies the route on every core and across
  // reloads: tunnels last as long as the route. `change`: how the path is changed. `ours`: its configured fields
  // replace the server's. Both may be null, and outlive this object. `preserve_host`: as in RouteOptions.
  Proxy(std::shared_ptr<Upstream> upstream, std::shared_ptr<const SharedUpstream> shared,
        std::shared_ptr<const void> route = nullptr, const PathChange* change = nullptr,
        const http::AnswerFields* ours = nullptr, bool preserve_host = true)
      : upstream_(std::move(upstream)),
        shared_(std::move(shared)),
        route_(std::move(route)),
        change_(change),
        ours_(ours),
        preserve_host_(preserve_host) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  class Responding;

  [[nodiscard]] core::Task<http::Response> forward(http::Exchange& exchange);
  // The answer for a server's 101.
  [[nodiscard]] http::Response change_protocol(const http::Exchange& exchange, const http::client::ResponseHead& head,
                                               Upstream::Attempt attempt, http::client::Pool::Lease connection) const;

  const std::shared_ptr<Upstream> upstream_;
  const std::shared_ptr<const SharedUpstream> shared_;
  const std::shared_ptr<const void> route_;
  const PathChange* const change_;
  const http::AnswerFields* const ours_;
  const bool preserve_host_;
  ForwardedRequest forwarded_;
};

}  // namespace sluice::gateway
