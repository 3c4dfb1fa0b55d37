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

  // Web pages must not act: requests with an Origin field, and those with a domain name as Host,
  // because a web page's own domain may resolve to this address (DNS rebinding). They may not read from a loopback
  // address either; elsewhere a Prometheus may know the server by any name.
  enum class Guard : std::uint8_t { none, reads, acts };
  // Adds a page before listen().
  void add(http::Method method, std::string_view path, Guard guard, std::unique_ptr<http::Handler> handler);
  // Answers 401 to requests without the token, except for /livez and /readyz. `token` returns the token at the time of
  // a request; empty: none is needed.
  void require_token(std::function<std::string_view()> token);
  // Adds readings of the process to /metrics.
  void add_readings(std::function<Readings()> readings) { readings_.push_back(std::move(readings)); }

  // Throws std::system_error if the address cannot be bound. Requests that come before the core runs are answered 503.
  void listen(const net::Listening& address);

 private:
  class Front;
  class Live;
  class Ready;
  class Metrics;
  class NoBrowsers;

  std::shared_ptr<NoBrowsers> reads_;
  std::shared_ptr<NoBrowsers> acts_;
  std::vector<std::function<Readings()>> readings_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  core::Core& core_;
  http::Router router_;
  const std::unique_ptr<Front> front_;
  http::Server server_;
};

}  // namespace sluice::runtime
