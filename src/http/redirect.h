#pragma once

#include <cstdint>
#include <string>

#include "http/handler.h"

namespace sluice::http {

// Sends requests that have come without TLS to the same place with it: 301 for GET and HEAD, which every client
// follows, and 308 for the others, which keep their method. What has come with TLS goes on to `next`.
class HttpsRedirect final : public Dispatcher {
 public:
  explicit HttpsRedirect(Dispatcher& next) : next_(next) {}

  // Where TLS answers; 443 goes without saying.
  void set_port(std::uint16_t port) { port_ = port; }
  [[nodiscard]] core::Async<Response> dispatch(Exchange& exchange) override;

 private:
  Dispatcher& next_;
  std::uint16_t port_ = 443;
};

}  // namespace sluice::http
