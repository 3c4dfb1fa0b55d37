#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/address.h"
#include "core/mailbox.h"
#include "net/resolver.h"
#include "net/tls/context.h"

namespace sluice::sql::postgres {

// Whether a connection is encrypted, as libpq's sslmode defines it. `tls` decides which certificates are trusted.
enum class SslMode : std::uint8_t {
  disable,
  allow,   // unencrypted; over TLS if the server refuses that
  prefer,  // over TLS if the server offers it and the handshake succeeds, otherwise unencrypted
  require,
  verify_ca,
  verify_full,
};

// Whether the login is bound to the server's certificate (SCRAM-SHA-256-PLUS), as libpq's channel_binding defines it.
enum class ChannelBinding : std::uint8_t { disable, prefer, require };

// How one core connects to one PostgreSQL server. Times are in milliseconds.
struct Options {
  // The server's addresses, in the order in which they are tried. From the URL: see url.h.
  std::vector<core::Address> addresses;
  // If `host` is a name, each new connection resolves it again; the addresses above serve until that has succeeded.
  // Null: the name is not resolved again. Otherwise `mailbox` must be this core's. Both outlive the database.
  net::Resolver* resolver = nullptr;
  core::Mailbox* mailbox = nullptr;

  // The login and the database.
  std::string user;
  std::string password;
  std::string database;
  std::string application_name = "sluice";  // as pg_stat_activity shows it

  // Over TCP; a unix socket never uses TLS.
  SslMode ssl_mode = SslMode::disable;
  std::shared_ptr<const net::tls::ClientContext> tls = {};  // for all modes but `disable`
  std::string host = {};                                    // as in the URL; the certificate must match it
  ChannelBinding channel_binding = ChannelBinding::prefer;

  // Whether to send the password in the clear if the server asks for it, even if the connection is not TLS with a
  // verified certificate.
  bool allow_cleartext_password = false;

  // The most connections of this core; they are opened when they are needed.  1 ... 1000
  std::size_t pool_size = 8;
  // How long a request waits for a connection before it fails as unavailable.  0 ... 600000
  std::uint32_t wait_ms = 2000;
  // How many requests may wait for a connection at the same time; further ones fail at once.  0 ... 1000000
  std::size_t wait_limit = 1024;
  // How long a connection may take from the first packet to ready.  1 ... 600000
  std::uint32_t connect_timeout_ms = 5000;
  // How long the server may work before the first row, and between requested rows; 0: without limit.
  std::uint32_t statement_timeout_ms = 30'000;
  // Connections after the first are closed when they have been idle for this long; 0: never.
  std::uint32_t idle_ms = 60'000;

  // Use named prepared statements, kept per connection, and let requests share a connection. False for PgBouncer in
  // transaction mode: then every statement is parsed each time, has a connection for itself, and relies on no session
  // setting.
  bool prepared = true;
  // Requests that read set default_transaction_read_only. If false, a request is never sent a second time.
  bool read_only = true;
  // The most requests in flight on one shared connection; further ones use another connection.  1 ... 4096
  std::size_t pipeline = 64;
  // A shared request that takes longer is slow: its statement uses exclusive connections until it is fast again.
  std::uint32_t slow_ms = 20;
  // The most shared requests of one turn that may have a common Sync, and therefore a common transaction.  1 ... 64
  std::size_t batch = 1;

  // A statement that is read in parallel is requested in ranges of `range_blocks` blocks; in a single range if the
  // table has fewer than `range_least_blocks`.
  std::uint32_t range_blocks = 128;
  std::uint32_t range_least_blocks = 512;

  // The largest row, in bytes on the wire; a larger one ends its request.  1024 ... 1 GiB
  std::size_t max_row_bytes = std::size_t{1} << 30;
};

}  // namespace sluice::sql::postgres
