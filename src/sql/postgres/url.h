#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/address.h"
#include "sql/postgres/options.h"

// Parses postgres://user:password@host:port/database?parameter=value as libpq does. Errors are sentences for the author
// of the URL; they never contain the password.
namespace sluice::sql::postgres {

struct Url {
  std::string user;  // default: the name of the operating system's user
  std::string password;
  std::string host;  // a name, an address, or, if it begins with '/', the directory of the unix socket
  std::uint16_t port = 5432;
  std::string database;  // default: the user's name
  std::string application_name = "sluice";
  std::optional<std::uint32_t> connect_timeout_ms;

  SslMode ssl_mode = SslMode::prefer;  // `disable` for unix sockets, whatever the URL says
  std::string ssl_root_cert;           // a PEM file, or "system"; empty: none
  std::string ssl_cert;                // PEM files: the client's certificate and its key
  std::string ssl_key;
  ChannelBinding channel_binding = ChannelBinding::prefer;
};

[[nodiscard]] std::expected<Url, std::string> parse_url(std::string_view text);

// Returns the URL's addresses. Blocks while it resolves a name, so it is only for the program's start.
[[nodiscard]] std::expected<std::vector<core::Address>, std::string> resolve(const Url& url);

// Parses the URL, resolves it and loads the files for TLS; all other Options have their defaults. `folder`: where
// relative paths start; empty: the working directory.
[[nodiscard]] std::expected<Options, std::string> options_from_url(std::string_view text, std::string_view folder = {});

}  // namespace sluice::sql::postgres
