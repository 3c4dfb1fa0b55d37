#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/batch/options.h"
#include "api/openapi/options.h"
#include "api/options.h"
#include "api/resident/options.h"
#include "app/request_log_options.h"
#include "app/tls_options.h"
#include "base/declare.h"
#include "files/options.h"
#include "gateway/options.h"
#include "gateway/proxy/options.h"
#include "http/compress/options.h"
#include "http/server.h"
#include "sql/options.h"
#include "ws/options.h"

namespace sluice::app {

enum class AccessLogTarget : std::uint8_t { off, standard_output };

inline NameOf<AccessLogTarget> names_of(AccessLogTarget) {
  return {{"off", AccessLogTarget::off}, {"stdout", AccessLogTarget::standard_output}};
}

enum class IoChoice : std::uint8_t { automatic, epoll, uring };

inline NameOf<IoChoice> names_of(IoChoice) {
  return {{"auto", IoChoice::automatic}, {"epoll", IoChoice::epoll}, {"uring", IoChoice::uring}};
}

// One field of [server.headers].
struct HeaderOptions {
  Located<std::string> value;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &HeaderOptions::value, "What it says.", {.required = true});
    v.shorthand("value");
  }
};

// [server]
struct ServerOptions {
  std::vector<Located<std::string>> listen = {"127.0.0.1:8080"};
  Located<std::uint32_t> cores = {0};
  Located<IoChoice> io = {IoChoice::automatic};
  ByteSize header_limit = 16_KiB;
  Located<ByteSize> target_limit = {8_KiB};
  std::uint32_t field_limit = 128;
  ByteSize body_limit = 1_MiB;
  ByteSize body_memory = 0_B;
  Duration header_timeout = 10s;
  Duration body_timeout = 10s;
  Duration idle_timeout = 60s;
  Duration write_timeout = 30s;
  ByteSize slowest_client = 240_B;
  Located<std::uint32_t> connections = {16384};
  Duration grace = 10s;
  AccessLogTarget access_log = AccessLogTarget::off;
  Located<std::string> server_header{"sluice"};
  std::vector<Named<HeaderOptions>> headers;
  std::optional<TlsOptions> tls;
  bool http1 = true;
  Located<bool> http2{true};
  std::uint32_t http2_streams = 100;

  // What is offered to clients of TLS, the preferred first.
  [[nodiscard]] std::vector<std::string> alpn() const { return http::alpn_protocols(http1, http2); }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("listen", &ServerOptions::listen,
            "Where clients connect: `127.0.0.1:8080`, `[::1]:8080`, `*:8080` (every address), `unix:/run/sluice.sock` "
            "(a relative path is from the folder of the configuration file). `http://` or `https://` before it says "
            "whether TLS is spoken there; without them it is where there is a `[server.tls]`.",
            {.min = 1, .max = 64});
    v.field("cores", &ServerOptions::cores, "Worker threads, one on each core. `0`: all that this process may use.",
            {.min = 0, .max = 1024});
    v.field(
        "io", &ServerOptions::io,
        "How the cores learn what their sockets have to say. `epoll`; `uring`: io_uring, which takes Linux 6.1 and a "
        "system that allows it, and is the cheaper one where clients open a connection for each request; `auto`: "
        "what is cheaper on connections that are kept, which is epoll. `sluice_io_info` says which one runs.");
    v.field("header_limit", &ServerOptions::header_limit, "The longest request line and header: 431 beyond it.",
            {.min = 1_KiB, .max = 63_KiB});
    v.field("target_limit", &ServerOptions::target_limit,
            "The longest target (path and query) of a request: 414 beyond it.", {.min = 64_B, .max = 63_KiB});
    v.field("field_limit", &ServerOptions::field_limit, "The fields of a request's header: 431 beyond it.",
            {.min = 8, .max = 1000});
    v.field("body_limit", &ServerOptions::body_limit,
            "The longest request body: 413 beyond it. An endpoint may have its own.", {.max = 16_GiB});
    v.field(
        "body_memory", &ServerOptions::body_memory,
        "How much memory request bodies and streams of HTTP/2 may take, of all cores together: beyond it bodies that "
        "come slowly are cut, requests are answered 503, and streams are refused. The bodies of one connection may "
        "have a quarter of a core's part; a body that alone needs more is answered 413. `0`: a quarter of the memory "
        "that the process may use, by its cgroup, by "
        "`ulimit -v` and by what the machine has.",
        {.max = 1024_GiB});
    v.field("header_timeout", &ServerOptions::header_timeout,
            "How long a request's header may take to arrive: 408 after it.", {.min = 1ms, .max = 1h});
    v.field("body_timeout", &ServerOptions::body_timeout,
            "How long a request's body may stand still, or be too slow: 408 after it.", {.min = 1ms, .max = 1h});
    v.field("idle_timeout", &ServerOptions::idle_timeout,
            "How long a connection is kept without a request before it is closed.", {.min = 1ms, .max = 24h});
    v.field("write_timeout", &ServerOptions::write_timeout,
            "How long a client may take nothing of its answer, or take it too slowly, before the connection is closed.",
            {.min = 1ms, .max = 24h});
    v.field("slowest_client", &ServerOptions::slowest_client,
            "What a client must send of a body, and take of an answer, each second on average of `body_timeout` and "
            "`write_timeout`; counted is the time in which it is waited for. `0`: one byte in all of that time.",
            {.max = 1_GiB});
    v.field("connections", &ServerOptions::connections, "Connections of each core: 503 and closed beyond it.",
            {.min = 1, .max = 10'000'000});
    v.field("grace", &ServerOptions::grace, "How long requests may still run after SIGTERM.", {.min = 0s, .max = 24h});
    v.field("access_log", &ServerOptions::access_log, "A line of JSON for every request.");
    v.field("server_header", &ServerOptions::server_header, "The Server field of every answer; empty: none.");
    v.field("headers", &ServerOptions::headers,
            "Fields of every answer by their names: `X-Content-Type-Options = \"nosniff\"`.");
    v.field("http1", &ServerOptions::http1,
            "Whether HTTP/1.1 is spoken. `false`: a connection must begin with HTTP/2's preface, without an Upgrade.");
    v.field("http2", &ServerOptions::http2, "Whether HTTP/2 is spoken to clients that begin with it.");
    v.field("http2_streams", &ServerOptions::http2_streams,
            "Requests of one HTTP/2 connection at the same time: more are refused.", {.min = 1, .max = 10'000});
    v.field(
        "tls", &ServerOptions::tls,
        "TLS 1.2 and 1.3 on the addresses of `listen`. SIGHUP reads its files again, and so does a change of theirs.");
  }
};

// [admin]
struct AdminOptions {
  Located<std::string> listen{"127.0.0.1:8081"};  // empty: off

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("listen", &AdminOptions::listen,
            "Where `/livez`, `/readyz`, `/metrics` and `/reload` answer; empty: nowhere.");
  }
};

// The whole file.
struct Options {
  ServerOptions server;
  AdminOptions admin;
  http::compress::Options compression;
  std::vector<Named<sql::DatabaseOptions>> databases;
  std::vector<api::EndpointOptions> endpoints;
  std::vector<api::resident::ResidentOptions> residents;
  std::vector<files::FilesOptions> files;
  std::vector<Named<files::StoreOptions>> stores;
  std::vector<ws::WebSocketOptions> websockets;
  std::vector<gateway::UpstreamOptions> upstreams;
  std::vector<gateway::RouteOptions> routes;
  std::vector<Named<gateway::PolicyOptions>> policies;
  std::optional<api::openapi::Options> openapi;
  std::vector<Named<api::ErrorOptions>> errors;
  std::optional<api::batch::Options> batch;
  std::optional<RequestLogOptions> request_log;

  // Once loaded: of a name that exists.
  [[nodiscard]] std::size_t index_of_database(std::string_view name) const {
    const auto found = std::ranges::find(databases, name, [](const auto& one) { return one.name.value; });
    return static_cast<std::size_t>(found - databases.begin());
  }
  // Nothing: there is none of that name.
  [[nodiscard]] std::optional<std::size_t> find_policy(std::string_view name) const {
    for (std::size_t i = 0; i < policies.size(); ++i) {
      if (policies[i].name.value == name) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> find_upstream(std::string_view name) const {
    for (std::size_t i = 0; i < upstreams.size(); ++i) {
      if (upstreams[i].name.value == name) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::size_t> find_store(std::string_view name) const {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].name.value == name) return i;
    }
    return std::nullopt;
  }
  // Whether the policies of a route hold one of that type; of "jwt": requests may have claims. Only of names that
  // exist.
  [[nodiscard]] bool uses(const std::vector<Located<std::string>>& use, gateway::PolicyType type) const {
    for (const auto& name : use) {
      const auto index = find_policy(name.value);
      if (index && policies[*index].value.type.value == type) return true;
    }
    return false;
  }

  // Whether something writes to the database of that name.
  [[nodiscard]] bool writes_to(std::string_view database) const {
    if (batch && batch->database.value == database) return true;
    if (request_log && request_log->database.value == database) return true;
    return std::ranges::any_of(endpoints, [&](const api::EndpointOptions& endpoint) {
      return endpoint.database.value == database && !endpoint.writing_methods().empty();
    });
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("server", &Options::server, "What clients connect to, and what they may take.");
    v.field("admin", &Options::admin, "What operators connect to. It has no log-in: keep it on the loopback.");
    v.field("compression", &Options::compression, "How answers are compressed. Without `codings` they are not.");
    v.field("database", &Options::databases, "A database that endpoints answer from.");
    v.field("endpoint", &Options::endpoints, "A resource that SQL answers.");
    v.field("resident", &Options::residents, "The rows of a query, kept in memory.");
    v.field("files", &Options::files, "A folder of files.");
    v.field("store", &Options::stores, "A folder of files that clients send, each called by what it holds.");
    v.field("websocket", &Options::websockets, "A path where WebSocket clients connect.");
    v.field("upstream", &Options::upstreams, "Servers that requests are passed on to.");
    v.field("route", &Options::routes, "A path whose requests are passed on to an upstream.");
    v.field("batch", &Options::batch, "Several calls of endpoints in one request and one transaction.");
    v.field("request_log", &Options::request_log, "Every request as a row of a table, without its credentials.");
    v.field("openapi", &Options::openapi, "The endpoints described as OpenAPI 3.1, for clients and their tools.");
    v.field("policy", &Options::policies, "What requests must pass before an endpoint, files or a websocket `use` it.");
    v.field(
        "errors", &Options::errors,
        "What errors of the databases are answered with, by SQLSTATE: `P0001 = 422`, or by its class: `23xxx = 409`.");
  }
};

}  // namespace sluice::app
