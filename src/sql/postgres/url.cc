#include "sql/postgres/url.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <utility>

#include <netdb.h>
#include <pwd.h>
#include <unistd.h>

#include "base/hex.h"
#include "sql/postgres/encryption.h"

namespace sluice::sql::postgres {
namespace {

using Failure = std::unexpected<std::string>;

// The directory of the socket in Debian's PostgreSQL and libpq.
constexpr std::string_view default_socket_directory = "/var/run/postgresql";

std::expected<std::string, std::string> decode(std::string_view text, std::string_view what) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') return Failure("the " + std::string(what) + " contains a NUL byte");
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) return Failure("the " + std::string(what) + " has a '%' without two hexadecimal digits");
    if (high == 0 && low == 0) return Failure("the " + std::string(what) + " contains a NUL byte");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::string user_of_process() {
  passwd entry{};
  passwd* found = nullptr;
  char strings[4096];
  if (getpwuid_r(geteuid(), &entry, strings, sizeof strings, &found) != 0 || found == nullptr) return {};
  return found->pw_name;
}

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

std::expected<void, std::string> set_port(Url& url, std::string_view text) {
  const auto port = parse_number(text, 65535);
  if (!port || *port == 0) return Failure("the port must be a number from 1 to 65535");
  url.port = static_cast<std::uint16_t>(*port);
  return {};
}

std::expected<void, std::string> set_host(Url& url, std::string host) {
  if (host.find(',') != std::string::npos) return Failure("more than one host is not supported");
  if (host.starts_with('@')) return Failure("sockets in the abstract namespace are not supported");
  url.host = std::move(host);
  return {};
}

constexpr std::string_view system_trust = "system";

std::optional<SslMode> parse_ssl_mode(std::string_view text) {
  using enum SslMode;
  for (const SslMode mode : {disable, allow, prefer, require, verify_ca, verify_full}) {
    if (text == name_of(mode)) return mode;
  }
  return std::nullopt;
}

std::expected<void, std::string> set_channel_binding(Url& url, std::string_view text) {
  if (text == "disable") {
    url.channel_binding = ChannelBinding::disable;
  } else if (text == "prefer") {
    url.channel_binding = ChannelBinding::prefer;
  } else if (text == "require") {
    url.channel_binding = ChannelBinding::require;
  } else {
    return Failure("channel_binding must be disable, prefer or require");
  }
  return {};
}

// Refuses combinations that would not have their stated effect. libpq ignores some of these, and verifies the
// certificate if sslrootcert is given, although "prefer" may then continue without TLS.
std::expected<void, std::string> check_tls(Url& url, std::optional<SslMode> asked) {
  const bool by_system = url.ssl_root_cert == system_trust;
  url.ssl_mode = asked.value_or(by_system ? SslMode::verify_full : SslMode::prefer);
  if (url.host.starts_with('/')) url.ssl_mode = SslMode::disable;
  const std::string mode = "sslmode=" + std::string(name_of(url.ssl_mode));
  if (url.channel_binding == ChannelBinding::require && url.ssl_mode == SslMode::disable) {
    return Failure("channel_binding=require needs TLS, which is not used " +
                   (url.host.starts_with('/') ? std::string("on a unix socket") : "with " + mode));
  }
  if (url.host.starts_with('/')) return {};
  if (by_system && url.ssl_mode != SslMode::verify_full) {
    return Failure("sslrootcert=system trusts authorities that sign for everybody, so it needs sslmode=verify-full");
  }
  if (!url.ssl_root_cert.empty() && url.ssl_mode < SslMode::require) {
    return Failure("sslrootcert is of no use with " + mode + (asked ? "" : ", the default") +
                   ", which does without TLS where the certificate is not trusted; use sslmode=verify-full");
  }
  if (url.ssl_root_cert.empty() && url.ssl_mode > SslMode::require) {
    return Failure(
        mode + " needs to know whom to trust: sslrootcert=FILE" +
        (url.ssl_mode == SslMode::verify_full ? ", or sslrootcert=system for the system's authorities" : ""));
  }
  if (url.ssl_cert.empty() != url.ssl_key.empty()) return Failure("sslcert and sslkey go together");
  if (!url.ssl_cert.empty() && url.ssl_mode == SslMode::disable) return Failure("sslcert is of no use with " + mode);
  return {};
}

std::expected<void, std::string> set_parameter(Url& url, std::string_view name, std::string value, bool shows_name) {
  if (name == "channel_binding") return set_channel_binding(url, value);
  if (name == "host") return set_host(url, std::move(value));
  if (name == "port") return set_port(url, value);
  if (name == "user") {
    url.user = std::move(value);
  } else if (name == "password") {
    url.password = std::move(value);
  } else if (name == "dbname") {
    url.database = std::move(value);
  } else if (name == "application_name") {
    url.application_name = std::move(value);
  } else if (name == "sslrootcert") {
    url.ssl_root_cert = std::move(value);
  } else if (name == "sslcert") {
    url.ssl_cert = std::move(value);
  } else if (name == "sslkey") {
    url.ssl_key = std::move(value);
  } else if (name == "connect_timeout") {
    const auto seconds = parse_number(value, 600);
    if (!seconds) return Failure("connect_timeout must be a number of seconds from 0 to 600");
    if (*seconds != 0) url.connect_timeout_ms = *seconds * 1000;
  } else {
    return Failure("unknown parameter" + (shows_name ? " \"" + std::string(name) + "\"" : "") +
                   "; there are sslmode, sslrootcert, sslcert, sslkey, channel_binding, host, port, user, password, "
                   "dbname, application_name and connect_timeout");
  }
  return {};
}

std::expected<void, std::string> parse_authority(Url& url, std::string_view authority) {
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    const std::string_view user_info = authority.substr(0, at);
    authority.remove_prefix(at + 1);
    const std::size_t colon = user_info.find(':');
    auto user = decode(user_info.substr(0, colon), "user");
    if (!user) return Failure(user.error());
    url.user = std::move(*user);
    if (colon != std::string_view::npos) {
      auto password = decode(user_info.substr(colon + 1), "password");
      if (!password) return Failure(password.error());
      url.password = std::move(*password);
    }
  }
  std::string_view host = authority;
  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return Failure("the IPv6 address has no ']'");
    host = authority.substr(1, end - 1);
    if (!core::Address::from_ip(host, 1) || host.find(':') == std::string_view::npos) {
      return Failure("what stands in brackets is not an IPv6 address");
    }
    const std::string_view rest = authority.substr(end + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port) return Failure("after ']' only a port may follow");
    if (has_port) port = rest.substr(1);
  } else if (const std::size_t colon = authority.find(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
    has_port = true;
    if (port.find(':') != std::string_view::npos) return Failure("an IPv6 address must stand in brackets");
  }
  auto decoded = decode(host, "host");
  if (!decoded) return Failure(decoded.error());
  if (auto set = set_host(url, std::move(*decoded)); !set) return set;
  // libpq allows "host:/database".
  if (has_port && !port.empty()) return set_port(url, port);
  return {};
}

}  // namespace

std::expected<Url, std::string> parse_url(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("postgres://")) {
    rest.remove_prefix(11);
  } else if (rest.starts_with("postgresql://")) {
    rest.remove_prefix(13);
  } else {
    return Failure("the URL must begin with postgres:// or postgresql://");
  }
  std::string_view query;
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
    query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  const std::size_t slash = rest.find('/');
  if (auto parsed = parse_authority(url, rest.substr(0, slash)); !parsed) return Failure(parsed.error());
  if (slash != std::string_view::npos) {
    auto database = decode(rest.substr(slash + 1), "database");
    if (!database) return Failure(database.error());
    url.database = std::move(*database);
  }
  std::optional<SslMode> ssl_mode;
  bool has_password = query.contains('@');
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    const std::size_t equals = pair.find('=');
    // The message does not repeat the parameter, which may be part of a password that contains '?' or '&'.
    if (equals == std::string_view::npos) return Failure("a parameter has no value");
    auto name = decode(pair.substr(0, equals), "parameter");
    if (!name) return Failure(name.error());
    auto value = decode(pair.substr(equals + 1), "parameter");
    if (!value) return Failure(value.error());
    if (*name == "sslmode") {
      ssl_mode = parse_ssl_mode(*value);
      if (!ssl_mode) return Failure("sslmode must be disable, allow, prefer, require, verify-ca or verify-full");
      continue;
    }
    // The name, too, may be part of a password that contains '?' or '&'.
    const bool shows_name = !has_password && std::ranges::all_of(*name, is_name_character);
    has_password |= *name == "password";
    if (auto set = set_parameter(url, *name, std::move(*value), shows_name); !set) return Failure(set.error());
  }
  if (url.user.empty()) url.user = user_of_process();
  if (url.user.empty()) return Failure("the URL names no user, and this process has none");
  if (url.database.empty()) url.database = url.user;
  if (url.host.empty()) url.host = default_socket_directory;
  if (auto checked = check_tls(url, ssl_mode); !checked) return Failure(checked.error());
  return url;
}

std::expected<std::vector<core::Address>, std::string> resolve(const Url& url) {
  std::vector<core::Address> addresses;
  if (url.host.starts_with('/')) {
    const std::string path = url.host + "/.s.PGSQL." + std::to_string(url.port);
    const auto address = core::Address::from_path(path);
    if (!address) return Failure("the socket's path is too long: " + path);
    addresses.push_back(*address);
    return addresses;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  // An IP address needs no look-up, and AI_ADDRCONFIG would hide the loopback address if there is no network.
  if (const auto address = core::Address::from_ip(url.host, url.port)) {
    addresses.push_back(*address);
    return addresses;
  }
  if (const int error = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found); error != 0) {
    return Failure("the host \"" + url.host + "\" cannot be resolved: " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) {
      addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
    }
  }
  if (addresses.empty()) return Failure("the host \"" + url.host + "\" has no address");
  return addresses;
}

namespace {

std::expected<std::shared_ptr<const net::tls::ClientContext>, net::tls::Problem> context_of(const Url& url,
                                                                                            std::string_view folder) {
  using Verify = net::tls::ClientOptions::Verify;
  const auto from_folder = [folder](const std::string& path) {
    return path.empty() ? path : (std::filesystem::path(folder) / path).string();  // an absolute path is unchanged
  };
  net::tls::ClientOptions options;
  options.verify = url.ssl_root_cert.empty()              ? Verify::none
                   : url.ssl_mode == SslMode::verify_full ? Verify::full
                                                          : Verify::chain;  // also for `require`, as in libpq
  if (url.ssl_root_cert != system_trust) options.ca_file = from_folder(url.ssl_root_cert);
  options.certificate = from_folder(url.ssl_cert);
  options.key = from_folder(url.ssl_key);
  options.alpn = {"postgresql"};  // servers before version 17 ignore it
  return net::tls::ClientContext::make(options);
}

}  // namespace

std::expected<Options, std::string> options_from_url(std::string_view text, std::string_view folder) {
  auto url = parse_url(text);
  if (!url) return Failure(url.error());
  std::shared_ptr<const net::tls::ClientContext> tls;
  if (url->ssl_mode != SslMode::disable) {
    auto made = context_of(*url, folder);
    if (!made) return Failure(made.error().text);
    tls = std::move(*made);
  }
  auto addresses = resolve(*url);
  if (!addresses) return Failure(addresses.error());
  Options options;
  options.addresses = std::move(*addresses);
  options.ssl_mode = url->ssl_mode;
  options.tls = std::move(tls);
  options.host = std::move(url->host);
  options.channel_binding = url->channel_binding;
  options.user = std::move(url->user);
  options.password = std::move(url->password);
  options.database = std::move(url->database);
  options.application_name = std::move(url->application_name);
  if (url->connect_timeout_ms) options.connect_timeout_ms = *url->connect_timeout_ms;
  return options;
}

}  // namespace sluice::sql::postgres
