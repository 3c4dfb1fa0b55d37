#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "core/address.h"
#include "core/core.h"
#include "http/handler.h"
#include "http/router.h"
#include "http/server.h"
#include "net/acceptor.h"
#include "runtime/gatherer.h"
#include "runtime/per_core.h"

namespace sluice::runtime {

// A page of the admin listener.
[[nodiscard]] http::Response text_response(std::string_view type, std::string_view text);

// The operators' listener, on one core: /livez, /readyz, /metrics, and the pages that its user adds.
class Admin {
 public:
  // `per_core` holds one entry for each core, by index, which may be null until all cores are running. The core's run()
  // ends before this is destroyed.
  Admin(core::Core& core, std::span<PerCore* const> per_core);
  ~Admin();

  // Whether requests of web pages of another origin are refused: those whose Origin is not this listener's,
  // or whose Sec-Fetch-Site names another site, and those with a domain name as Host, because a web page's own domain
  // may resolve to this address (DNS rebinding). `on_loopback`: on an address that is not a loopback address, a
  // Prometheus may know the server by any name.
  enum class Guard : std::uint8_t { none, on_loopback, always };
  // Adds a page before listen().
  void add(http::Method method, std::string_view path, Guard guard, std::unique_ptr<http::Handler> handler);
  // Answers 401 to requests without the token, except for `/`, /livez and /readyz. `token` returns the token at the
  // time of a request; empty: none is needed.
  void require_token(std::function<std::string_view()> token);
  // Adds readings of the process to /metrics.
  void add_readings(std::function<Readings()> readings) { gatherer_.add(std::move(readings)); }
  [[nodiscard]] Gatherer& gatherer() { return gatherer_; }

  // Throws std::system_error if the address cannot be bound. Requests that come before the core runs are answered 503.
  void listen(const net::Listening& address);

 private:
  class Front;
  class Live;
  class Ready;
  class Metrics;
  class NoOtherOrigin;

  std::shared_ptr<NoOtherOrigin> on_loopback_;
  std::shared_ptr<NoOtherOrigin> always_;
  Gatherer gatherer_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  core::Core& core_;
  http::Router router_;
  const std::unique_ptr<Front> front_;
  http::Server server_;
};

}  // namespace sluice::runtime
