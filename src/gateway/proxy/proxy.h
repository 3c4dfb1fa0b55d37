#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/proxy/fields.h"
#include "gateway/proxy/upstream.h"
#include "http/answer_fields.h"
#include "http/handler.h"

namespace sluice::gateway {

class Forwarding;

struct ProxyOptions {
  const PathChange* change = nullptr;               // null: the path is unchanged; outlives the proxy
  const http::AnswerFields* ours = nullptr;         // their configured fields replace the server's; likewise
  bool preserve_host = true;                        // as in RouteOptions
  bool keeps_slashes = false;                       // `slashes = "keep"`
  bool rewrite_location = false;                    // as in RouteOptions
  Duration timeout{};                               // likewise
  bool buffer_request = false;                      // likewise
  std::span<const Located<std::string>> upgrade{};  // likewise; outlives the proxy
  std::string client_field{};                       // as in ForwardedRequest::Options
  std::vector<http::compress::Coding> codings{};    // likewise
};

// [[route]]: forwards requests to the servers of an upstream, and their responses back. Bodies are streamed both ways:
// data is read from one side only as fast as the other side takes it.
//
// With `buffer_request`, the whole body is read before a server is chosen.
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
  // reloads: tunnels last as long as the route.
  Proxy(std::shared_ptr<Upstream> upstream, std::shared_ptr<const SharedUpstream> shared,
        std::shared_ptr<const void> route = nullptr, ProxyOptions options = {})
      : upstream_(std::move(upstream)),
        shared_(std::move(shared)),
        route_(std::move(route)),
        options_(std::move(options)) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  class Responding;

  // Whether a server may be asked for all these protocols.
  [[nodiscard]] bool may_upgrade(std::string_view protocols) const;
  [[nodiscard]] core::Task<http::Response> forward(http::Exchange& exchange);
  // The answer with a server's response.
  [[nodiscard]] http::Response answer(Forwarding& way, const http::client::ResponseHead& head,
                                      http::client::Pool::Lease lease) const;
  // The answer for a server's 101.
  [[nodiscard]] http::Response change_protocol(const http::Exchange& exchange, const http::client::ResponseHead& head,
                                               Upstream::Attempt attempt, http::client::Pool::Lease connection) const;

  const std::shared_ptr<Upstream> upstream_;
  const std::shared_ptr<const SharedUpstream> shared_;
  const std::shared_ptr<const void> route_;
  const ProxyOptions options_;
  ForwardedRequest forwarded_;
};

}  // namespace sluice::gateway
