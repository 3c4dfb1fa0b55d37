#pragma once

#include <memory>
#include <utility>

#include "gateway/proxy/fields.h"
#include "gateway/proxy/upstream.h"
#include "http/handler.h"

namespace sluice::gateway {

// [[route]]: passes requests on to the servers of an upstream, and their responses back. Bodies stream both ways: what
// one side does not take, the other is not asked for.
//
// A request goes to another server only where the one before cannot have seen it: where it could not be connected to,
// or where a connection that was kept had been closed meanwhile, and the request has no body and may be repeated.
class Proxy final : public http::Handler {
 public:
  explicit Proxy(std::shared_ptr<Upstream> upstream) : upstream_(std::move(upstream)) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  class Responding;

  [[nodiscard]] core::Task<http::Response> forward(http::Request& request);

  const std::shared_ptr<Upstream> upstream_;
  ForwardedRequest forwarded_;
};

}  // namespace sluice::gateway
