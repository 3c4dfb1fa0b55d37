#pragma once

#include <cstdint>
#include <string>

#include "http/handler.h"

namespace sluice::http {

// Redirects requests without TLS to the same URL with https: with 301 for GET and HEAD, which every client follows, and
// with 308 for other methods, so that clients keep the method. Requests over TLS go on to `next`, and so does `OPTIONS
// *`.
class HttpsRedirect final : public Handler {
 public:
  // Redirected exchanges pin `pinned`, which outlives them; null: nothing.
  explicit HttpsRedirect(Handler& next, Pinned* pinned = nullptr) : next_(next), pinned_(pinned) {}

  // The port of the TLS listener. The default, 443, is left out of the URL.
  void set_port(std::uint16_t port) { port_ = port; }
  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;

 private:
  Handler& next_;
  Pinned* const pinned_;
  std::uint16_t port_ = 443;
};

}  // namespace sluice::http
