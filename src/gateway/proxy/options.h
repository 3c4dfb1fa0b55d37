#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "http/client/pool.h"

namespace sluice::gateway {

// "http://127.0.0.1:3000", "http://billing.internal". An error is what it must be.
[[nodiscard]] std::expected<http::client::Origin, std::string> parse_server(std::string_view text);

// [[upstream]]
struct UpstreamOptions {
  Located<std::string> name;
  std::vector<Located<std::string>> servers;
  Duration connect_timeout = 5s;
  Duration response_timeout = 60s;
  Duration idle_timeout = 60s;
  Duration write_timeout = 30s;
  std::uint32_t keep = 64;
  Duration keep_for = 60s;
  Position position;

  static std::string check_name(std::string_view text);
  static std::string check_server(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = UpstreamOptions;
    v.field("name", &Self::name, "What routes, metrics and logs call it: letters, digits, `-` and `_`.",
            {.required = true, .check = check_name});
    v.field("servers", &Self::servers,
            "Where its servers are: `http://127.0.0.1:3000`, `http://billing.internal:8080`. Requests go to one after "
            "the other. One that cannot be reached is passed over for the request that found out.",
            {.min = 1, .max = 1000, .required = true, .check = check_server});
    v.field("connect_timeout", &Self::connect_timeout,
            "How long it may take to connect to a server, its name's look-up included: 504 after it.",
            {.min = 1ms, .max = 1h});
    v.field("response_timeout", &Self::response_timeout,
            "How long a server may take from the end of a request to the end of its response's header: 504 after it.",
            {.min = 1ms, .max = 24h});
    v.field("idle_timeout", &Self::idle_timeout,
            "How long a response's body may stand still. After it the client's answer is cut.",
            {.min = 1ms, .max = 24h});
    v.field("write_timeout", &Self::write_timeout, "How long a server may take nothing of a request: 504 after it.",
            {.min = 1ms, .max = 24h});
    v.field("keep", &Self::keep, "Connections that each core keeps to each server while they have no request.",
            {.max = 100'000});
    v.field("keep_for", &Self::keep_for, "How long such a connection is kept.", {.min = 1ms, .max = 24h});
    v.position(&Self::position);
  }
};

// [[route]]
struct RouteOptions {
  Located<std::string> path;
  Located<std::string> upstream;
  std::vector<Located<std::string>> use;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RouteOptions;
    v.field("path", &Self::path,
            "Requests for this path go to the upstream: GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS. "
            "`/billing/{rest...}` is everything below `/billing/`.",
            {.required = true});
    v.field("upstream", &Self::upstream, "The name of the [[upstream]] that answers.", {.required = true});
    v.field("use", &Self::use,
            "The names of the policies ([policy.NAME]) that a request must pass, in this order, whatever its method.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway
