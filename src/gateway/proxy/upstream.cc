#include "gateway/proxy/upstream.h"

#include <algorithm>
#include <charconv>

#include "core/address.h"
#include "http/target.h"

namespace sluice::gateway {

using http::client::Origin;

std::expected<Origin, std::string> parse_server(std::string_view text) {
  constexpr const char* wanted = "must be a server, as \"http://127.0.0.1:3000\" or \"http://billing.internal\" is";
  constexpr std::string_view scheme = "http://";
  if (text.starts_with("https://"))
    return std::unexpected("must begin with \"http://\": TLS is not spoken to servers yet");
  if (!text.starts_with(scheme)) return std::unexpected(wanted);
  text.remove_prefix(scheme.size());
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find_first_of("/?#") != text.npos)
    return std::unexpected("must end behind the port: paths are for [[route]]");
  if (!http::is_authority(text, http::PortIs::optional)) return std::unexpected(wanted);
  Origin origin;
  const std::size_t colon = text.find_last_of(":]");
  if (colon != text.npos && text[colon] == ':') {
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), origin.port);
    if (error != std::errc{} || end != port.data() + port.size() || origin.port == 0) {
      return std::unexpected("must have a port from 1 to 65535");
    }
    text = text.substr(0, colon);
  }
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  if (text.contains(':') && !core::Address::from_ip(text, origin.port)) return std::unexpected(wanted);
  origin.host = text;
  return origin;
}

std::string UpstreamOptions::check_server(std::string_view text) {
  const auto parsed = parse_server(text);
  return parsed ? std::string() : parsed.error();
}

std::string UpstreamOptions::check_name(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return plain ? std::string() : "takes letters, digits, '_' and '-'";
}

namespace {

std::vector<Origin> parse_servers(const UpstreamOptions& options) {
  std::vector<Origin> servers;
  for (const auto& server : options.servers) servers.push_back(*parse_server(server.value));
  return servers;
}

http::client::PoolOptions pool_options(const UpstreamOptions& options) {
  return {.connection = {.write_timeout = options.write_timeout,
                         .head_timeout = options.response_timeout,
                         .idle_timeout = options.idle_timeout},
          .connect_timeout = options.connect_timeout,
          .idle = options.keep,
          .idle_time = options.keep_for};
}

std::string text_of(const Origin& origin) {
  const bool is_ipv6 = origin.host.contains(':');
  return (is_ipv6 ? "[" + origin.host + "]" : origin.host) + ":" + std::to_string(origin.port);
}

}  // namespace

SharedUpstream::SharedUpstream(const UpstreamOptions& of) : options(of), servers(parse_servers(of)) {
  for (const Origin& server : servers) troubles.emplace_back("upstream " + options.name.value + ", " + text_of(server));
}

bool SharedUpstream::needs_resolver() const {
  return std::ranges::any_of(servers, [](const Origin& server) { return !core::Address::from_ip(server.host, 1); });
}

Upstream::Server::Server(core::Reactor& reactor, core::Mailbox& mailbox, SharedUpstream& shared, std::size_t index)
    : address(text_of(shared.servers[index])),
      pool(reactor, mailbox, shared.resolver, shared.servers[index], pool_options(shared.options)),
      trouble(shared.troubles[index]) {}

Upstream::Upstream(core::Reactor& reactor, core::Mailbox& mailbox, std::shared_ptr<SharedUpstream> shared)
    : shared_(std::move(shared)) {
  for (std::size_t i = 0; i < shared_->servers.size(); ++i) servers_.emplace_back(reactor, mailbox, *shared_, i);
}

Readings Upstream::readings() const {
  Readings all;
  for (const Server& server : servers_) {
    const std::string labels = label("upstream", shared_->options.name.value) + "," + label("server", server.address);
    const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
    const auto& connections = server.pool.counters();
    Readings own = {
        counter("sluice_upstream_requests_total", "Requests that were sent to the server.", count(server.requests)),
        counter("sluice_upstream_failures_total", "Those which it gave no response to, or half of one.",
                count(server.failures)),
        counter("sluice_upstream_connections_opened_total", "Connections to the server.", count(connections.opened)),
        counter("sluice_upstream_connection_failures_total", "Attempts to connect to the server that failed.",
                count(connections.open_failures)),
        gauge("sluice_upstream_connections", "Open connections to the server, those without a request too.",
              count(server.pool.idle() + server.pool.lent())),
        gauge("sluice_upstream_idle_connections", "Connections to the server that have no request.",
              count(server.pool.idle()))};
    append(all, std::move(own), labels);
  }
  return all;
}

}  // namespace sluice::gateway
