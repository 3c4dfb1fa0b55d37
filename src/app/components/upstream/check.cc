#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "app/components/upstream/tables.h"
#include "app/config/checks.h"
#include "app/config/paths.h"
#include "app/config/text.h"
#include "gateway/proxy/upstream.h"

namespace sluice::app {
namespace {

using config::Checks;

void check_balance(const Checks& checks, const gateway::UpstreamOptions& upstream) {
  const bool is_hash = upstream.balance.value == gateway::Balance::hash;
  const bool has_key = upstream.hash.position.line != 0;
  if (is_hash && !has_key) {
    checks.complain(upstream.balance.position, "balance = \"hash\" needs the key \"hash\"",
                    "add hash = \"client\", or another value");
  }
  if (!is_hash && has_key) {
    checks.complain(upstream.hash.position, "\"hash\" is for balance = \"hash\"");
  }
  if (!is_hash || !upstream.hash.value.starts_with("claim.")) return;
  for (const auto& route : checks.options.routes) {
    if (!route.passes_to(upstream.name.value)) continue;
    if (checks.options.gives_claims(route.use)) continue;
    checks.complain(
        upstream.hash.position, "requests of a route to this upstream have no claims",
        fmt::format("route \"{}\" needs a policy of type \"jwt\", \"api-key\" or \"basic\"", route.path.value));
  }
}

void check_upstream_tls(const Checks& checks, const gateway::UpstreamOptions& upstream,
                        const gateway::UpstreamTlsOptions& tls) {
  if (!upstream.is_secure()) {
    checks.complain(tls.position, "no server of this upstream speaks TLS", "write \"https://...\" for one");
  }
  if (!tls.cert.value.empty() && tls.key.value.empty())
    checks.complain(tls.cert.position, "\"cert\" needs its \"key\"");
  if (!tls.key.value.empty() && tls.cert.value.empty()) checks.complain(tls.key.position, "\"key\" needs its \"cert\"");
  if (!tls.ca.value.empty() && !tls.verify.value) {
    checks.complain(tls.ca.position, "\"ca\" is used only where certificates are verified",
                    "leave out \"verify = false\"");
  }
  if (tls.ca.value.empty() && tls.crl.position.line != 0) {
    checks.complain(tls.crl.position, "\"crl\" is about the revocation lists in \"ca\"");
  }
}

void check_health(const Checks& checks, const gateway::UpstreamOptions& upstream,
                  const gateway::HealthOptions& health) {
  for (const auto& [name, value] : health.fields) {
    const auto is = [&](const char* other) { return http::same_name(name.value, other); };
    if (!http::is_token(name.value)) {
      checks.complain(name.position, "this is no name of a header field");
    } else if (is("host")) {
      checks.complain(name.position, "the host of probes has a key of its own: host = \"...\"");
    } else if (is("content-length") || is("transfer-encoding") || is("connection") || is("te") || is("upgrade")) {
      checks.complain(name.position, fmt::format("{} is not set here", name.value));
    }
    checks.check_field_value(value);
  }
  const auto needs_path = [&](Position position, const char* key) {
    if (health.path.empty() && position.line != 0) {
      checks.complain(position, fmt::format("\"{}\" needs \"path\": without it, probes only connect", key));
    }
  };
  needs_path(health.host.position, "host");
  needs_path(health.method.position, "method");
  needs_path(health.body.position, "body");
  if (!health.fields.empty()) needs_path(health.fields.front().name.position, "fields");
  if (health.method.value == "HEAD" && !health.body.value.empty()) {
    checks.complain(health.body.position, "an answer to HEAD has no body");
  }
  if (health.port.value == 0) return;
  for (const auto& server : upstream.servers) {
    if (server.url.value.starts_with("unix:")) checks.complain(health.port.position, "a unix socket has no port");
  }
}

}  // namespace

void UpstreamTables::resolve(Options& options, const config::Paths& paths) {
  for (auto& upstream : options.upstreams) {
    if (!upstream.tls) continue;
    for (auto* path : {&upstream.tls->ca, &upstream.tls->cert, &upstream.tls->key}) paths.resolve(*path);
  }
}

void UpstreamTables::check(Checks& checks) {
  std::map<std::string_view, Position> names;
  for (const auto& upstream : checks.options.upstreams) {
    if (auto [other, is_new] = names.emplace(upstream.name.value, upstream.name.position); !is_new) {
      checks.complain(upstream.name.position, "another upstream has the same name",
                      config::again(other->second, checks.options.sources));
    }
    std::map<std::string, Position> servers;
    for (const auto& [url, weight, backup] : upstream.servers) {
      const auto origin = gateway::parse_server(url.value);
      if (!origin) continue;
      const std::string server = gateway::SharedUpstream::name_of(*origin);
      if (auto [other, is_new] = servers.emplace(server, url.position); !is_new) {
        checks.complain(url.position, "this server comes twice", config::again(other->second, checks.options.sources));
      }
    }
    if (upstream.tls) check_upstream_tls(checks, upstream, *upstream.tls);
    check_balance(checks, upstream);
    if (upstream.health) check_health(checks, upstream, *upstream.health);
    if (!upstream.retry_on.value.empty() && upstream.retries.tries == 0) {
      checks.complain(upstream.retry_on.position, "\"retry_on\" is for \"retries\" above 0");
    }
    if (upstream.queue.position.line != 0 && upstream.connections == 0) {
      checks.complain(upstream.queue.position, "\"queue\" needs \"connections\"");
    }
    if (upstream.wait.position.line != 0 && upstream.queue.value == 0) {
      checks.complain(upstream.wait.position, "\"wait\" needs \"queue\"");
    }
    if (upstream.required.value && !upstream.health) {
      checks.complain(upstream.required.position,
                      "\"required\" needs \"health\": only failed probes remove all servers");
    }
    if (upstream.eject.time.value > upstream.eject.longest) {
      checks.complain(upstream.eject.time.position, "an ejection would last longer than \"longest\" allows",
                      fmt::format("\"longest\" is {}", config::format_duration(upstream.eject.longest)));
    }
  }
}

}  // namespace sluice::app
