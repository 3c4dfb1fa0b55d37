#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "base/host.h"
#include "http/client/pool.h"
#include "http/router.h"
#include "net/tls/crl.h"

namespace sluice::gateway {

// "http://127.0.0.1:3000", "https://billing.internal", "unix:/run/app.sock". The error says what the text must be.
[[nodiscard]] std::expected<http::client::Origin, std::string> parse_server(std::string_view text);

// A range of statuses, or one status: "502-504", "503".
struct StatusRange {
  int first = 0;
  int last = -1;  // below `first`: none

  [[nodiscard]] static std::optional<StatusRange> parse(std::string_view text);
  [[nodiscard]] bool contains(int status) const { return status >= first && status <= last; }
};

enum class Balance : std::uint8_t { round_robin, least, hash };

inline NameOf<Balance> names_of(Balance) {
  return {{"round-robin", Balance::round_robin}, {"least", Balance::least}, {"hash", Balance::hash}};
}

// The part of a request that `balance = "hash"` hashes.
struct HashKey {
  enum class Kind : std::uint8_t { client, path, header, cookie, claim };
  Kind kind = Kind::client;
  std::string name;  // of the header field, cookie or claim

  [[nodiscard]] static std::optional<HashKey> parse(std::string_view text);
};

// One of `servers`.
struct ServerEntry {
  Located<std::string> url;
  std::uint32_t weight = 1;
  bool backup = false;

  static std::string check(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = ServerEntry;
    v.field("url", &Self::url,
            "The server's URL: `http://127.0.0.1:3000`, `https://billing.internal`, `unix:/run/app.sock`.",
            {.required = true, .check = check});
    v.field("weight", &Self::weight,
            "The server's share of requests, in proportion to the weights of the other servers.",
            {.min = 1, .max = 1000});
    v.field("backup", &Self::backup,
            "`true`: the server gets a request only if every server without `backup` is ejected, or has failed for "
            "this request.");
    v.shorthand("url");
  }
};

// A text such as "20%".
[[nodiscard]] unsigned percent_of(std::string_view text);
[[nodiscard]] std::string check_percent(std::string_view text);

// upstream.retries
struct RetryOptions {
  static constexpr std::uint32_t most_tries = 10;

  std::uint32_t tries = 3;
  std::string budget = "20%";
  std::uint32_t at_least = 10;

  [[nodiscard]] unsigned percent() const { return percent_of(budget); }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RetryOptions;
    v.field("tries", &Self::tries,
            "How many other servers are tried for a request if servers fail. If a server cannot be connected to, any "
            "request is retried. After other failures, only GET, HEAD, PUT, DELETE and OPTIONS with a body of at "
            "most 64KiB are retried, as far as `budget` allows.",
            {.max = most_tries});
    v.field("budget", &Self::budget,
            "How many retries there may be, in proportion to the requests. `20%`: one for every five requests. `0%`: a "
            "request is retried only if a server could not be connected to. `100%`: no limit except `tries`.",
            {.check = check_percent});
    v.field("at_least", &Self::at_least,
            "How many unused retries each core can save up for later. A core starts with that many.",
            {.max = 1'000'000});
    v.shorthand("tries");
  }
};

// upstream.eject
struct EjectOptions {
  std::uint32_t after = 5;
  Located<Duration> time{10s};
  Duration longest = 5min;
  std::string at_most = "50%";
  std::string status = "502-504";
  Duration slow_start = 10s;

  [[nodiscard]] unsigned percent() const { return percent_of(at_most); }
  static std::string check_status(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = EjectOptions;
    v.field("after", &Self::after,
            "A server is ejected after this many failed requests in a row. A request fails if the server cannot be "
            "connected to, gives no valid response in time, or answers with one of `status`. `0`: failed requests do "
            "not eject a server.",
            {.max = 1'000'000});
    v.field("for", &Self::time,
            "How long the first ejection of a server lasts. Each further ejection lasts twice as long as the one "
            "before. Once the server has been up for as long as its last ejection, the next one counts as the first "
            "again.",
            {.min = 1ms, .max = 24h});
    v.field("longest", &Self::longest, "The longest ejection.", {.min = 1ms, .max = 24h});
    v.field("at_most", &Self::at_most,
            "Failed requests eject a server only if then at most this share of the servers is ejected, `0%` to `100%`. "
            "If it is above `0%`, at least one of several servers may be ejected. Failed requests never eject the only "
            "server of an upstream. Failed probes may eject all servers.",
            {.check = check_percent});
    v.field("status", &Self::status, "The statuses that count as failures, within `500-599`.", {.check = check_status});
    v.field("slow_start", &Self::slow_start,
            "How long a server gets less than its share of requests after an ejection, beginning with 10 % of it. "
            "`0s`: it gets its whole share at once.",
            {.max = 24h});
  }
};

// upstream.health
struct HealthOptions {
  std::string path;
  Located<std::string> host;
  std::vector<Named<Located<std::string>>> fields;
  Located<std::string> method{"GET"};
  Duration every = 5s;
  Duration timeout = 2s;
  std::string status = "200-399";
  Located<std::string> body;
  Located<std::uint32_t> port;
  std::uint32_t rise = 2;
  std::uint32_t fall = 3;

  static std::string check_path(std::string_view text);
  static std::string check_host(std::string_view text);
  static std::string check_method(std::string_view text);
  static std::string check_status(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = HealthOptions;
    v.field("path", &Self::path, "The target of each probe. Without it, a probe only connects to the server.",
            {.check = check_path});
    v.field("host", &Self::host,
            "The `Host` of each probe. Without it, the `host` of the first [[route]] to the upstream that has one, "
            "unless it has `preserve_host = false` or is for several hosts; otherwise `tls.name` for `https://`, and "
            "the host of the server's URL.",
            {.check = check_host});
    v.field("fields", &Self::fields, "Further header fields of each probe, such as `{ X-Probe = \"1\" }`.",
            {.max = 64});
    v.field("method", &Self::method, "The method of each probe: `GET`, `HEAD` or `OPTIONS`.", {.check = check_method});
    v.field("every", &Self::every, "How often each server is probed. Only one core probes it.",
            {.min = 10ms, .max = 24h});
    v.field("timeout", &Self::timeout,
            "How long a probe may take, from connecting to the end of the response's header, or with `body` until the "
            "text has come.",
            {.min = 1ms, .max = 1h});
    v.field("status", &Self::status, "The statuses that pass the probe: `200-399`, `204`.", {.check = check_status});
    v.field("body", &Self::body, "A text that the first 64KiB of the response's body must contain to pass the probe.");
    v.field("port", &Self::port, "The port that is probed, instead of the one that gets the requests.",
            {.min = 1, .max = 65535});
    v.field("rise", &Self::rise, "How many probes in a row an ejected server must pass before it gets requests again.",
            {.min = 1, .max = 1000});
    v.field("fall", &Self::fall, "How many probes in a row a server must fail before it is ejected.",
            {.min = 1, .max = 1000});
  }
};

// [upstream.tls]
struct UpstreamTlsOptions {
  Located<std::string> ca;
  Located<net::tls::Crl> crl = {net::tls::Crl::soft};
  Located<std::string> cert;
  Located<std::string> key;
  Located<std::string> name;
  Located<bool> verify = {true};
  Position position;

  static std::string check_tls_name(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = UpstreamTlsOptions;
    v.field("ca", &Self::ca,
            "The authorities that may sign the servers' certificates, PEM; they need not be self-signed. It may also "
            "hold the certificates of servers themselves. Without it, those authorities that the system trusts. A "
            "certificate that a revocation list (CRL) in this file names is refused. Relative paths start at the "
            "folder of the configuration file.");
    v.field("crl", &Self::crl,
            "Whether certificates are accepted if `ca` has revocation lists, but the one of their authority is missing "
            "or has expired: as `server.tls.crl`.");
    v.field("cert", &Self::cert, "Sluice's own certificate, PEM, with its chain, for servers that ask for one.");
    v.field("key", &Self::key, "The certificate's private key, PEM, without a passphrase.");
    v.field("name", &Self::name,
            "The name that the servers' certificates must be for, and that is sent to the servers (SNI). Without it, "
            "the host of the server's URL.",
            {.check = check_tls_name});
    v.field("verify", &Self::verify,
            "`false`: any certificate is accepted. Anybody on the network in between can then read and change "
            "everything.");
    v.position(&Self::position);
  }
};

// [[upstream]]
struct UpstreamOptions {
  Located<std::string> name;
  std::vector<ServerEntry> servers;
  Located<Balance> balance;
  Located<std::string> hash;
  RetryOptions retries;
  Located<std::string> retry_on;
  EjectOptions eject;
  std::optional<HealthOptions> health;
  Located<bool> required;
  Duration connect_timeout = 5s;
  Duration response_timeout = 60s;
  Duration idle_timeout = 60s;
  Duration write_timeout = 30s;
  Duration tunnel_timeout = 1h;
  std::uint32_t keep = 64;
  Duration keep_for = 60s;
  Duration keep_age = 1h;
  std::uint32_t connections = 0;
  Located<std::uint32_t> queue;
  Located<Duration> wait{1s};
  std::optional<UpstreamTlsOptions> tls;
  Position position;

  // A copy without servers, balance, hash, retries, `required` and the limit of connections. Servers that two
  // configurations share keep their connections and states even if these options differ.
  [[nodiscard]] UpstreamOptions without_choice() const;
  // Whether a connection to any of the servers uses TLS.
  [[nodiscard]] bool is_secure() const;

  static std::string check_name(std::string_view text);
  static std::string check_hash(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = UpstreamOptions;
    v.field("name", &Self::name, "The name of the upstream in routes, metrics and logs: letters, digits, `-` and `_`.",
            {.required = true, .check = check_name});
    v.field("servers", &Self::servers,
            "The servers of the upstream: URLs, or tables with a `weight`, such as `{ url = "
            "\"http://10.0.0.2:3000\", weight = 3 }`.",
            {.min = 1, .max = 1000, .required = true});
    v.field("balance", &Self::balance,
            "Which server gets a request. `round-robin`: the servers in turn, by weight. `least`: two servers are "
            "drawn by weight, and the one with fewer requests in progress gets it. `hash`: requests with the same "
            "`hash` go to the same server. Each core counts separately.");
    v.field("hash", &Self::hash,
            "The value that `balance = \"hash\"` hashes: `client` (its address), `path`, `header.NAME`, "
            "`cookie.NAME`, or `claim.NAME` of the verified JWT. A request without this value is balanced by "
            "`round-robin`.",
            {.check = check_hash});
    v.field("retries", &Self::retries,
            "How many other servers are tried for a request if servers fail, and how many requests may be retried.");
    v.field("retry_on", &Self::retry_on,
            "The statuses, within `500-599`, that count as a failure for `retries`: `503`, `502-504`. Empty: none.",
            {.check = EjectOptions::check_status});
    v.field("eject", &Self::eject, "When a failing server stops getting requests, and for how long.");
    v.field("health", &Self::health,
            "How servers are probed. Without it, they are not probed. While the probes of all servers fail, requests "
            "are answered 503.");
    v.field("required", &Self::required,
            "While the probes of all servers fail, `/readyz` names the upstream. `true`: it is then answered 503.");
    v.field("connect_timeout", &Self::connect_timeout,
            "How long connecting to a server may take, including its name's look-up and the TLS handshake. After "
            "that the request is answered 504.",
            {.min = 1ms, .max = 1h});
    v.field("response_timeout", &Self::response_timeout,
            "How long a server may take from the end of a request to the end of its response's header. After that "
            "the request is answered 504.",
            {.min = 1ms, .max = 24h});
    v.field("idle_timeout", &Self::idle_timeout,
            "How long a response's body may stall before the client's answer is cut off.", {.min = 1ms, .max = 24h});
    v.field("write_timeout", &Self::write_timeout,
            "How long a server may read nothing of a request. After that the request is answered 504.",
            {.min = 1ms, .max = 24h});
    v.field("tunnel_timeout", &Self::tunnel_timeout,
            "How long both sides of a WebSocket, or of another upgraded connection, may be silent before both are "
            "closed. Once one side has ended, `idle_timeout` applies instead.",
            {.min = 1ms, .max = 24h * 7});
    v.field("keep", &Self::keep, "How many idle connections each core keeps open to each server.", {.max = 100'000});
    v.field("keep_for", &Self::keep_for, "How long an idle connection is kept open.", {.min = 1ms, .max = 24h});
    v.field("keep_age", &Self::keep_age, "A connection that is older gets no further request.",
            {.min = 1ms, .max = 24h * 7});
    v.field("connections", &Self::connections,
            "How many connections to each server may be busy at the same time, on all cores together: each request "
            "and each WebSocket takes one. Idle connections (`keep`) come on top. `0`: no limit.",
            {.max = 1'000'000});
    v.field("queue", &Self::queue,
            "How many requests may wait for a connection to a server with `connections`, in the order of their "
            "arrival. Beyond that, a request goes to another server as `retries` allows. If all are busy, it "
            "is answered 503.",
            {.max = 1'000'000});
    v.field("wait", &Self::wait, "How long a request may wait in the `queue`. After that it is answered 503.",
            {.min = 1ms, .max = 1h});
    v.field("tls", &Self::tls,
            "TLS to servers with `https://`. Without this table, their certificates must be signed by an authority "
            "that the system trusts.");
    v.position(&Self::position);
  }
};

// [route.redirect]
struct RedirectOptions {
  Located<std::string> to;
  Located<std::uint32_t> status = 307;

  static std::string check_to(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RedirectOptions;
    v.field("to", &Self::to,
            "The URL that clients are sent to, or a path that begins with `/`. `{name}` stands for a parameter of "
            "the route's path. The request's query string is appended unless `to` has one.",
            {.required = true, .check = check_to});
    v.field("status", &Self::status,
            "301 and 308 are permanent, and browsers remember them. 302, 303 and 307 are temporary. With 307 and 308 "
            "the client sends the same method and body again.",
            {.min = 301, .max = 308});
    v.shorthand("to");
  }
};

// [route.respond]
struct RespondOptions {
  std::uint32_t status = 200;
  std::string body;
  Located<std::string> type = "text/plain; charset=utf-8";
  std::vector<Named<Located<std::string>>> headers;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RespondOptions;
    v.field("status", &Self::status, "The status of the answer.", {.min = 200, .max = 599});
    v.field("body", &Self::body, "The body of the answer.");
    v.field("type", &Self::type, "The Content-Type of the answer, if it has a body.");
    v.field("headers", &Self::headers, "Further header fields of the answer.");
    v.shorthand("status");
  }
};

// [route.rewrite]
struct RewriteOptions {
  Located<std::string> match;
  Located<std::string> to;

  static std::string check_to(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RewriteOptions;
    v.field("match", &Self::match,
            "A regular expression (RE2) that is searched for in the path that would be sent to the server, which is "
            "normalised and percent-encoded. A path without a match is left unchanged.",
            {.required = true});
    v.field("to", &Self::to,
            "Replaces the whole path that the server gets. `\\0` stands for the matched text, `\\1` to `\\9` for its "
            "groups.",
            {.required = true, .check = check_to});
  }
};

enum class Slashes : std::uint8_t { refuse, keep };

inline NameOf<Slashes> names_of(Slashes) { return {{"refuse", Slashes::refuse}, {"keep", Slashes::keep}}; }

// [[route]]
struct RouteOptions {
  Located<std::string> path;
  Located<std::string> host;
  std::vector<Located<std::string>> methods;
  std::vector<Named<std::string>> headers;
  std::vector<Named<std::string>> query;
  std::optional<Located<std::string>> upstream;
  std::vector<Named<std::uint32_t>> split;
  std::optional<Located<std::string>> split_by;
  std::optional<RedirectOptions> redirect;
  std::optional<RespondOptions> respond;
  std::optional<Located<std::string>> strip;
  std::optional<RewriteOptions> rewrite;
  Located<Slashes> slashes;
  Located<bool> preserve_host = {true};
  Located<bool> rewrite_location = {true};
  Located<Duration> timeout;
  Located<bool> buffer_request;
  std::vector<Located<std::string>> upgrade{{"websocket"}};
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  static std::string check_method(std::string_view text);
  static std::string check_split_by(std::string_view text);
  static std::string check_upgrade(std::string_view text);
  // The conditions of `headers` and `query`.
  [[nodiscard]] std::vector<http::Condition> conditions() const;
  [[nodiscard]] std::vector<http::Method> taken_methods() const;
  // The methods of `methods` that http::Method does not name.
  [[nodiscard]] std::vector<std::string> other_methods() const;
  // Whether requests go to an upstream, or to that one.
  [[nodiscard]] bool passes_on() const { return upstream || !split.empty(); }
  [[nodiscard]] bool passes_to(std::string_view upstream_name) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RouteOptions;
    v.field("path", &Self::path, "The path of the route. `/billing/{rest...}` matches everything below `/billing/`.",
            {.required = true});
    v.field("host", &Self::host, host_meaning, {.check = check_host});
    v.field("methods", &Self::methods,
            "The methods that the route accepts; GET includes HEAD. Several routes may have the same path if their "
            "methods differ. A route with `upstream` or `split` may also name others, such as PROPFIND. `[]`: GET, "
            "HEAD, POST, PUT, PATCH, DELETE and OPTIONS, and with `upstream` or `split` every method but TRACE and "
            "CONNECT.",
            {.check = check_method});
    v.field("headers", &Self::headers,
            "Header fields that the request must have, with their values, such as `{X-Version = \"2\"}`; `*` stands "
            "for any value. If the conditions of several routes with the same path are met, the route with the most "
            "conditions is used.");
    v.field("query", &Self::query, "Query parameters that the request must have, as for `headers`.");
    v.field("upstream", &Self::upstream, "The name of the [[upstream]] that answers the requests.");
    v.field("split", &Self::split,
            "Instead of `upstream`: the names of several upstreams and each one's share of the requests, such as "
            "`{stable = 95, canary = 5}`.",
            {.max = 1'000'000});
    v.field("split_by", &Self::split_by,
            "`header.NAME` or `cookie.NAME`: `split` sends all requests with the same value to the same upstream. "
            "A client without the cookie gets one with a random value; requests without the header are distributed "
            "as without `split_by`.",
            {.check = check_split_by});
    v.field("redirect", &Self::redirect, "Instead of `upstream`: redirects clients.");
    v.field("respond", &Self::respond, "Instead of `upstream`: answers with a fixed response.");
    v.field("strip", &Self::strip,
            "A prefix of `path` that is removed from the path before the server gets it, in whole segments, such as "
            "`/billing`. It is added again to `Location`, `Content-Location` and the `Path` of cookies in answers.");
    v.field("rewrite", &Self::rewrite, "Changes the path before the server gets it, by a regular expression.");
    v.field("slashes", &Self::slashes,
            "Whether paths may have an empty segment (`//`). `refuse`: such a path is answered 404. `keep`: the server "
            "gets "
            "it as it is, for services with URLs in their paths, while routes and policies see one slash. A path that "
            "also has a segment `.` or `..`, or that would begin with two slashes, is answered 400.");
    v.field("preserve_host", &Self::preserve_host,
            "The `Host` that the server gets. `true`: the client's. `false`: the host of the server's URL, with its "
            "port unless that is the scheme's default; `localhost` for a unix socket. The client's is in "
            "`X-Forwarded-Host`.");
    v.field(
        "rewrite_location", &Self::rewrite_location,
        "Whether a `Location` or `Content-Location` with the server's own address gets the scheme and the host of "
        "the client's request, and one with `http://` and the client's host gets `https://` if the client uses TLS.");
    v.field("timeout", &Self::timeout,
            "How long a request may take at the upstream, from its header to the end of the response, whatever the "
            "number of servers that are tried. After that it is answered 504, or its response is cut off. It does not "
            "apply to WebSockets and other upgraded connections, nor to responses of the type `text/event-stream` "
            "once they have begun. `0s`: no limit beyond those of the upstream.",
            {.max = 24h});
    v.field("buffer_request", &Self::buffer_request,
            "`true`: the whole body of a request is read, within `body_memory` of [server], before a server is chosen. "
            "So a slow client does not occupy a server.");
    v.field(
        "upgrade", &Self::upgrade,
        "The protocols that a connection may be upgraded to, such as `[\"websocket\", \"tcp\"]`. A WebSocket is "
        "answered 501 if it is not listed; a request for another protocol is passed on as a plain request. `[]`: none.",
        {.check = check_upgrade});
    v.field("use", &Self::use,
            "The names of the policies ([policy.NAME]) that apply to a request, in this order, whatever its method.");
    v.field("public", &Self::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway
