#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/address.h"
#include "sql/postgres/options.h"

// postgres://user:password@host:port/database?parameter=value, as libpq reads it. Errors are sentences for whoever
// wrote the URL; they never repeat the password.
namespace sluice::sql::postgres {

struct Url {
  std::string user;  // default: the operating system's name for who runs this
  std::string password;
  std::string host;  // a name, an address, or, beginning with '/', the directory of the unix socket
  std::uint16_t port = 5432;
  std::string database;  // default: the user's name
  std::string application_name = "sluice";
  std::optional<std::uint32_t> connect_timeout_ms;

  SslMode ssl_mode = SslMode::prefer;  // `disable` for unix sockets, whatever was asked for
  std::string ssl_root_cert;           // a PEM file, or "system"; empty: none
  std::string ssl_cert;                // PEM files: our own certificate and its key
  std::string ssl_key;
  ChannelBinding channel_binding = ChannelBinding::prefer;
};

[[nodiscard]] std::expected<Url, std::string> parse_url(std::string_view text);

// Where the URL points. Blocks while a name is looked up, hence for the program's start only.
[[nodiscard]] std::expected<std::vector<core::Address>, std::string> resolve(const Url& url);

// Both, and the files for TLS; the defaults of Options for the rest. `folder`: where relative paths begin; empty: where
// the process is.
[[nodiscard]] std::expected<Options, std::string> options_from_url(std::string_view text, std::string_view folder = {});

}  // namespace sluice::sql::postgres
