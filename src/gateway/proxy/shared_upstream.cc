#include "gateway/proxy/shared_upstream.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/assert.h"
#include "core/address.h"
#include "http/target.h"

namespace sluice::gateway {

using http::client::Origin;

std::expected<Origin, std::string> parse_server(std::string_view text) {
  constexpr const char* wanted =
      "must be a server, as \"http://127.0.0.1:3000\", \"https://billing.internal\" or \"unix:/run/app.sock\" is";
  Origin origin;
  if (text.starts_with("unix:")) {
    origin.path = text.substr(5);
    if (!origin.path.starts_with('/') || !core::Address::from_path(origin.path)) {
      return std::unexpected("must have an absolute path of at most 107 bytes behind \"unix:\"");
    }
    return origin;
  }
  const std::string_view scheme = text.substr(0, text.find("://") + 3);
  origin.secure = scheme == "https://";
  if (!origin.secure && scheme != "http://") return std::unexpected(wanted);
  origin.port = origin.secure ? 443 : 80;
  text.remove_prefix(scheme.size());
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find_first_of("/?#") != text.npos)
    return std::unexpected("must end behind the port: paths are for [[route]]");
  if (!http::is_authority(text, http::PortIs::optional)) return std::unexpected(wanted);
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

std::string ServerEntry::check(std::string_view text) {
  const auto parsed = parse_server(text);
  return parsed ? std::string() : parsed.error();
}

bool UpstreamOptions::is_secure() const {
  return std::ranges::any_of(servers, [](const auto& server) { return server.url.value.starts_with("https://"); });
}

std::string UpstreamTlsOptions::check_tls_name(std::string_view text) {
  const bool is_host = http::is_authority(text, http::PortIs::optional) && !text.contains(':');
  return is_host ? std::string() : "must be a host's name, as \"billing.internal\" is";
}

std::string UpstreamOptions::check_name(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return plain ? std::string() : "takes letters, digits, '_' and '-'";
}

namespace {

std::string authority_of(const Origin& origin) {
  const bool is_ipv6 = origin.host.contains(':');
  return (is_ipv6 ? "[" + origin.host + "]" : origin.host) + ":" + std::to_string(origin.port);
}

// As a Host field names the server: without its scheme's default port.
std::string host_of(const Origin& origin) {
  if (!origin.path.empty()) return "localhost";
  std::string host = authority_of(origin);
  if (origin.port == (origin.secure ? 443 : 80)) host.resize(host.rfind(':'));
  return host;
}

}  // namespace

std::string SharedUpstream::name_of(const Origin& origin) {
  if (!origin.path.empty()) return "unix:" + origin.path;
  return (origin.secure ? "https://" : "") + authority_of(origin);
}

SharedUpstream::SharedUpstream(const UpstreamOptions& of, const SharedUpstream* before,
                               std::shared_ptr<const net::tls::ClientContext> context, unsigned cores_of_process)
    : options(of),
      hash(HashKey::parse(options.hash.value)),
      failures(StatusRange::parse(options.eject.status).value_or(StatusRange{})),
      retry_on(StatusRange::parse(options.retry_on.value).value_or(StatusRange{})),
      tls(std::move(context)),
      cores(before != nullptr ? before->cores : std::make_shared<Cores>(cores_of_process)) {
  SLUICE_ASSERT(tls != nullptr || !options.is_secure());
  for (const ServerEntry& entry : options.servers) {
    Server server{.origin = *parse_server(entry.url.value), .weight = entry.weight, .is_backup = entry.backup};
    server.name = server.entry = name_of(server.origin);
    server.host = host_of(server.origin);
    server.tls_name = options.tls && !options.tls->name.value.empty() ? options.tls->name.value : server.origin.host;
    if (before != nullptr) {
      const auto same = std::ranges::find(before->servers, server.name, &Server::name);
      if (same != before->servers.end()) server.trouble = same->trouble;
    }
    if (!server.trouble) {
      server.trouble = std::make_shared<TroubleLog>("upstream " + options.name.value + ", " + server.name);
    }
    servers.push_back(std::move(server));
  }
}

bool SharedUpstream::Server::has_host_name() const {
  return origin.path.empty() && !core::Address::from_ip(origin.host, 1);
}

SharedUpstream::Server SharedUpstream::Server::at(const std::string& ip, const std::string& upstream) const {
  Server server = *this;
  server.origin.host = ip;
  server.name += "/" + ip;
  server.trouble = std::make_shared<TroubleLog>("upstream " + upstream + ", " + server.name);
  return server;
}

bool SharedUpstream::needs_resolver() const { return std::ranges::any_of(servers, &Server::has_host_name); }

std::expected<std::shared_ptr<const net::tls::ClientContext>, TlsProblem> make_tls_context(
    const UpstreamOptions& options) {
  const UpstreamTlsOptions tls = options.tls.value_or(UpstreamTlsOptions{});
  using Verify = net::tls::ClientOptions::Verify;
  auto made = net::tls::ClientContext::make({.verify = tls.verify.value ? Verify::full : Verify::none,
                                             .ca_file = tls.ca.value,
                                             .crl = tls.crl.value,
                                             .certificate = tls.cert.value,
                                             .key = tls.key.value,
                                             .alpn = {"http/1.1"}});
  if (made) return std::move(*made);
  using File = net::tls::Problem::File;
  const Position position = made.error().file == File::certificate ? tls.cert.position
                            : made.error().file == File::key       ? tls.key.position
                                                                   : tls.ca.position;
  return std::unexpected(TlsProblem{position.line != 0 ? position : options.position, made.error().text});
}

http::client::PoolOptions SharedUpstream::pool_options(const Server& server) const {
  return {.connection = {.write_timeout = options.write_timeout,
                         .head_timeout = options.response_timeout,
                         .idle_timeout = options.idle_timeout},
          .connect_timeout = options.connect_timeout,
          .idle = options.keep,
          .idle_time = options.keep_for,
          .age = options.keep_age,
          .tls = tls,
          .tls_name = server.tls_name};
}

std::vector<SharedUpstream::Place> SharedUpstream::places(const Addresses& known) const {
  std::vector<Place> all;
  for (const Server& entry : servers) {
    const auto addresses = known.find(entry.name);
    if (addresses == known.end()) {
      all.emplace_back(entry, entry);
    } else {
      for (const Server& server : addresses->second) all.emplace_back(server, entry);
    }
  }
  return all;
}

std::shared_ptr<const SharedUpstream::Addresses> SharedUpstream::no_addresses() {
  static const auto none = std::make_shared<const Addresses>();
  return none;
}

}  // namespace sluice::gateway
