#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/options.h"
#include "app/components/kinds.h"
#include "app/config/file_names.h"
#include "app/config/tls_options.h"
#include "app/log/request_log_options.h"
#include "app/routes/kinds.h"
#include "base/declare.h"
#include "base/host.h"
#include "core/ip_ranges.h"
#include "files/options.h"
#include "gateway/policies/options.h"
#include "gateway/proxy/options.h"
#include "http/compress/options.h"
#include "http/error_pages.h"
#include "http/server.h"
#include "runtime/admin_token.h"
#include "sql/options.h"

namespace sluice::app {

enum class IoChoice : std::uint8_t { automatic, epoll, uring };

inline NameOf<IoChoice> names_of(IoChoice) {
  return {{"auto", IoChoice::automatic}, {"epoll", IoChoice::epoll}, {"uring", IoChoice::uring}};
}

// One field of [server.headers].
struct HeaderOptions {
  Located<std::string> value;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &HeaderOptions::value, "The value of the field.", {.required = true});
    v.shorthand("value");
  }
};

// [server]
struct ServerOptions {
  std::vector<Located<std::string>> listen = {"127.0.0.1:8080"};
  std::vector<Located<std::string>> hosts;
  bool same_origin = false;
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
  Duration drain_delay{};
  Duration grace = 10s;
  Located<std::string> access_log{"off"};    // "off", "stdout", or a path
  Located<std::string> error_log{"stderr"};  // "stderr", or a path
  Located<std::string> server_header{"sluice"};
  std::vector<Named<HeaderOptions>> headers;
  std::optional<Located<std::string>> error_pages;
  std::vector<http::ErrorPages::Page> own_error_pages;  // from the files in error_pages
  std::optional<TlsOptions> tls;
  bool http1 = true;
  Located<bool> http2{true};
  std::uint32_t http2_streams = 100;
  std::uint32_t http2_resets = 500;
  std::vector<Located<std::string>> trusted_proxies;
  Located<std::string> client_header{std::string(default_client_header)};
  std::vector<Located<std::string>> proxy_protocol;

  static constexpr std::string_view default_client_header = "X-Forwarded-For";

  static std::string check_client_header(std::string_view text);
  static std::string check_proxy(std::string_view text) { return text == "unix:" ? "" : core::IpRanges::check(text); }

  static std::string check_access_log(std::string_view text);
  static std::string check_error_log(std::string_view text);

  [[nodiscard]] bool has_access_log() const { return access_log.value != "off"; }
  // The paths of the logs' files; empty without a file.
  [[nodiscard]] std::string access_log_file() const {
    return access_log.value == "off" || access_log.value == "stdout" ? std::string() : access_log.value;
  }
  [[nodiscard]] std::string error_log_file() const { return error_log.value == "stderr" ? "" : error_log.value; }

  // The ALPN protocols that are offered to TLS clients, the preferred one first.
  [[nodiscard]] std::vector<std::string> alpn() const { return http::alpn_protocols(http1, http2); }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("listen", &ServerOptions::listen,
            "The addresses where clients connect: `127.0.0.1:8080`, `[::1]:8080`, `*:8080` (every address), "
            "`unix:/run/sluice.sock` (a relative path starts at the folder of the configuration file). A prefix "
            "`http://` or `https://` says whether the address uses TLS. Without a prefix it uses TLS if there is a "
            "`[server.tls]`.",
            {.min = 1, .max = 64});
    v.field("hosts", &ServerOptions::hosts,
            "The hosts that clients may ask for: `api.example.com`, `*.example.com` for every name below, `127.0.0.1`. "
            "Requests for others are answered 421. Without it, every host is answered. On the loopback, "
            "`[\"localhost\", \"127.0.0.1\"]` keeps web pages from reading data through a name of their own.",
            {.min = 1, .max = 1000, .check = check_host});
    v.field("same_origin", &ServerOptions::same_origin,
            "`true`: requests that write, by a page of another origin in a browser, are answered 403. Without it, any "
            "page can send a form to a server that its visitor reaches.");
    v.field("cores", &ServerOptions::cores,
            "The number of worker threads; each runs on its own core. `0`: one for every core that this process may "
            "use.",
            {.min = 0, .max = 1024});
    v.field("io", &ServerOptions::io,
            "How the cores wait for their sockets. `epoll`: Linux's epoll. `uring`: io_uring, which requires Linux "
            "6.1 and a system that allows it; it is cheaper if clients open a connection for each request. `auto`: "
            "the one that is cheaper on persistent connections, which is epoll. The metric `sluice_io_info` says "
            "which one is in use.");
    v.field("header_limit", &ServerOptions::header_limit,
            "The longest request line and header. A longer one is answered 431.", {.min = 1_KiB, .max = 63_KiB});
    v.field("target_limit", &ServerOptions::target_limit,
            "The longest target (path and query) of a request. A longer one is answered 414.",
            {.min = 64_B, .max = 63_KiB});
    v.field("field_limit", &ServerOptions::field_limit,
            "The most fields in a request's header. A request with more is answered 431.", {.min = 8, .max = 1000});
    v.field("body_limit", &ServerOptions::body_limit,
            "The longest request body. A longer one is answered 413. An endpoint may have its own limit.",
            {.max = 16_GiB});
    v.field("body_memory", &ServerOptions::body_memory,
            "How much memory request bodies, unfinished WebSocket messages and HTTP/2 streams may take, over all "
            "cores together. If it is used up, slow bodies and messages are cut off, requests are answered 503, and "
            "streams are refused. The bodies of one connection may take a quarter of a core's share; a single body "
            "that needs more is answered 413. `0`: a quarter of the memory that the process may use, as limited by "
            "its cgroup, by `ulimit -v` and by the machine.",
            {.max = 1024_GiB});
    v.field("header_timeout", &ServerOptions::header_timeout,
            "How long a request's header may take to arrive. After that the request is answered 408.",
            {.min = 1ms, .max = 1h});
    v.field("body_timeout", &ServerOptions::body_timeout,
            "How long a request's body may stall or arrive too slowly. After that the request is answered 408.",
            {.min = 1ms, .max = 1h});
    v.field("idle_timeout", &ServerOptions::idle_timeout, "How long a connection without a request stays open.",
            {.min = 1ms, .max = 24h});
    v.field("write_timeout", &ServerOptions::write_timeout,
            "How long a client may read nothing of its answer, or read too slowly, before its connection is closed.",
            {.min = 1ms, .max = 24h});
    v.field("slowest_client", &ServerOptions::slowest_client,
            "The lowest average rate in bytes per second: for a client that sends a body, over `body_timeout`; for a "
            "client that reads an answer, over `write_timeout`. Only the time in which Sluice waits for the client "
            "counts. `0`: one byte within the timeout is enough.",
            {.max = 1_GiB});
    v.field("connections", &ServerOptions::connections,
            "The most connections on each core. Further connections are answered 503 and closed.",
            {.min = 1, .max = 10'000'000});
    v.field("drain_delay", &ServerOptions::drain_delay,
            "How long the server still accepts connections and requests after SIGTERM. Meanwhile `/readyz` is answered "
            "503, so that load balancers stop sending requests before `grace` begins.",
            {.max = 1h});
    v.field("grace", &ServerOptions::grace, "How long requests in progress may continue after SIGTERM.",
            {.min = 0s, .max = 24h});
    v.field("access_log", &ServerOptions::access_log,
            "Where Sluice writes a line of JSON for every request. `off`: nowhere. `stdout`: to standard output. "
            "Anything else with a `/` or `.` is the path of a file, to which lines are appended: "
            "`/var/log/sluice/access.log`. Relative paths start at the folder of the configuration file. SIGUSR1 and a "
            "reload open the file again.",
            {.check = check_access_log});
    v.field("error_log", &ServerOptions::error_log,
            "Where Sluice writes errors and its other messages while it runs. `stderr`: to standard error. A path: as "
            "for `access_log`.",
            {.check = check_error_log});
    v.field("server_header", &ServerOptions::server_header,
            "The value of the Server field in every answer. Empty: answers have no such field.");
    v.field("headers", &ServerOptions::headers,
            "Fields that are added to every answer, by name: `X-Content-Type-Options = \"nosniff\"`.");
    v.field("error_pages", &ServerOptions::error_pages,
            "A folder with pages for errors: `404.html` for a status, `4xx.html` and `5xx.html` for all others. "
            "`{status}`, `{title}`, `{detail}` and `{request_id}` in them stand for those of the error. A request that "
            "prefers HTML, as those of browsers do, gets them; without this key it gets a plain page. Relative paths "
            "start at the folder of the configuration file. Sluice reads the pages with the configuration.");
    v.field("http1", &ServerOptions::http1,
            "Whether the server accepts HTTP/1.1. `false`: every connection must begin with HTTP/2's preface; an "
            "upgrade from HTTP/1.1 is not possible.");
    v.field("http2", &ServerOptions::http2,
            "Whether the server accepts HTTP/2: with TLS by ALPN, without TLS by prior knowledge.");
    v.field("http2_streams", &ServerOptions::http2_streams,
            "The most requests at the same time on one HTTP/2 connection. Further ones are refused.",
            {.min = 1, .max = 10'000});
    v.field("http2_resets", &ServerOptions::http2_resets,
            "How many requests a client may cancel at once on one HTTP/2 connection; 50 more are allowed each second. "
            "Beyond that the connection is closed, which is logged and counted.",
            {.min = 10, .max = 1'000'000});
    v.field("trusted_proxies", &ServerOptions::trusted_proxies,
            "Proxies in front whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted: addresses and prefixes, "
            "such as `10.0.0.0/8` and `2001:db8::/32`; `unix:` stands for every peer that connects to a unix socket. "
            "The client's address is the last one in `X-Forwarded-For` that is not a trusted proxy.",
            {.max = 10'000, .check = check_proxy});
    v.field(
        "client_header", &ServerOptions::client_header,
        "The field of trusted proxies that names the client, such as `CF-Connecting-IP` or `X-Real-IP`: an address, "
        "or a list as in `X-Forwarded-For`.",
        {.check = check_client_header});
    v.field("proxy_protocol", &ServerOptions::proxy_protocol,
            "Proxies in front whose connections begin with a PROXY protocol header (version 1 or 2), which gives the "
            "client's address: addresses and prefixes as in `trusted_proxies`. A connection from such a proxy "
            "without the header is closed.",
            {.max = 10'000, .check = check_proxy});
    v.field("tls", &ServerOptions::tls,
            "TLS 1.2 and 1.3 on the addresses of `listen`. Sluice reads its files again on SIGHUP and when they "
            "change.");
  }
};

// [admin]
struct AdminOptions {
  Located<std::string> listen{"127.0.0.1:8081"};  // empty: off
  std::optional<Located<std::string>> token;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("listen", &AdminOptions::listen,
            "The address that serves `/livez`, `/readyz`, `/metrics`, `/upstreams`, `/jwt/revoke`, `/explain` and "
            "`/reload`. Empty: they are not "
            "served. An address that other machines reach needs a `token`.");
    v.field("token", &AdminOptions::token,
            "Requests except for `/livez` and `/readyz` must have `Authorization: Bearer TOKEN`, and are answered 401 "
            "otherwise. At least 16 letters, digits and characters of `-._~+/=`: `token = \"${file:admin-token}\"`. A "
            "reload may change it.",
            {.check = runtime::check_admin_token});
  }
};

// [defaults]
struct DefaultsOptions {
  std::vector<Located<std::string>> use;
  std::vector<Located<sql::Format>> formats;  // empty for all

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("use", &DefaultsOptions::use,
            "The names of the policies ([policy.NAME]) that apply before those of a table's own `use`.");
    v.field("formats", &DefaultsOptions::formats,
            "The formats that each [[endpoint]] without `formats` offers for answers with rows. Without it, all four.",
            {.min = 1});
  }
};

// The whole file. The tables of the routes come from their kinds.
struct Options : ComponentTables, RouteTables {
  std::vector<Located<std::string>> include;
  ServerOptions server;
  AdminOptions admin;
  http::compress::Options compression;
  std::vector<Named<sql::DatabaseOptions>> databases;
  std::vector<Named<gateway::PolicyOptions>> policies;
  DefaultsOptions defaults;  // apply_defaults() has put them into the tables of the routes
  std::vector<Named<api::ErrorOptions>> errors;
  std::optional<RequestLogOptions> request_log;
  config::FileNames sources;  // the files that the positions refer to

  // Precondition: the name exists, as it always does after loading.
  [[nodiscard]] std::size_t index_of_database(std::string_view name) const {
    const auto found = std::ranges::find(databases, name, [](const auto& one) { return one.name.value; });
    return static_cast<std::size_t>(found - databases.begin());
  }
  // This and the next two return nothing if the name does not exist.
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
  // Whether one of these policies has that type. Names that do not exist are skipped.
  [[nodiscard]] bool uses(const std::vector<Located<std::string>>& use, gateway::PolicyType type) const {
    for (const auto& name : use) {
      const auto index = find_policy(name.value);
      if (index && policies[*index].value.type.value == type) return true;
    }
    return false;
  }

  // Whether requests that pass these policies may have claims.
  [[nodiscard]] bool gives_claims(const std::vector<Located<std::string>>& use) const {
    return std::ranges::any_of(use, [&](const auto& name) {
      const auto index = find_policy(name.value);
      return index && gateway::gives_claims(policies[*index].value.type.value);
    });
  }

  // Whether one of these policies has `request_id`.
  [[nodiscard]] bool gives_request_id(const std::vector<Located<std::string>>& use) const {
    return std::ranges::any_of(use, [&](const Located<std::string>& name) {
      const auto index = find_policy(name.value);
      if (!index || !policies[*index].value.is<gateway::headers::Options>()) return false;
      return policies[*index].value.of<gateway::headers::Options>().request_id;
    });
  }

  // The names of header fields and query parameters that hold API keys or tokens. Logs do not show their values.
  [[nodiscard]] std::vector<std::string> names_of_keys() const {
    std::vector<std::string> names;
    for (const auto& policy : policies) {
      if (policy.value.is<gateway::jwt::Options>()) {
        for (const gateway::Place& place : policy.value.of<gateway::jwt::Options>().places()) {
          names.push_back(place.in == gateway::Place::In::cookie ? "cookie" : place.name);
        }
      }
      if (!policy.value.is<gateway::apikey::Options>()) continue;
      const auto& options = policy.value.of<gateway::apikey::Options>();
      names.push_back(options.query ? options.query->value : options.cookie ? "cookie" : options.header.value);
    }
    return names;
  }

  // Whether an endpoint, the batch or the request log writes to this database.
  [[nodiscard]] bool writes_to(std::string_view database) const {
    if (batch && batch->database.value == database) return true;
    if (login && login->database.value == database) return true;
    if (request_log && request_log->database.value == database) return true;
    const auto has_service = [](const ws::WebSocketOptions& websocket) { return !websocket.service.value.empty(); };
    if (std::ranges::any_of(websockets, has_service)) return true;  // a service may write to each
    // SQLite's commits are heard of by the writer.
    const auto has_it = [&](const RoomOptions& room) { return room.database.value == database; };
    if (std::ranges::any_of(room_tables, has_it)) return true;
    return std::ranges::any_of(endpoints, [&](const api::EndpointOptions& endpoint) {
      return endpoint.database.value == database && !endpoint.writing_methods().empty();
    });
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("include", &Options::include,
            "Other files of the configuration, by name or by patterns with `*`, `?` and `[...]`: `conf.d/*.toml`. A "
            "relative path starts at the folder of this file. See [below](#several-files).");
    v.field("server", &Options::server, "The listener for clients, and the limits on clients.");
    v.field("admin", &Options::admin, "The listener for operators.");
    v.field("compression", &Options::compression, "Compression of answers. It is off unless `codings` is set.");
    v.field("database", &Options::databases, "A database that endpoints use.");
    ComponentTables::declare<Options>(v);
    RouteTables::declare<Options>(v);
    v.field("request_log", &Options::request_log, "Writes each request as a row of a table, without its credentials.");
    v.field("policy", &Options::policies,
            "A rule for requests of the endpoints, files, routes and so on that name it in `use`. Most policies "
            "refuse the requests that do not meet it.");
    v.field(
        "defaults", &Options::defaults,
        "Policies for every [[endpoint]], [[resident]], [[files]], [[websocket]] and [[route]], and for [batch] and "
        "[openapi], except for tables with `public = true`; and formats of endpoints.");
    v.field("errors", &Options::errors,
            "How errors of the databases are answered, by SQLSTATE, `P0001 = 422`, or by its class, `23xxx = 409`.");
  }
};

}  // namespace sluice::app
