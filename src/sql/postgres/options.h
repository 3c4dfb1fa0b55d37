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

// Whether a connection is encrypted, as libpq's sslmode means it. Whom we trust is the TLS context's matter.
enum class SslMode : std::uint8_t {
  disable,
  allow,   // in the clear; over TLS where the server refuses that
  prefer,  // over TLS where the server has it and it succeeds, else in the clear
  require,
  verify_ca,
  verify_full,
};

// Whether the log-in is tied to the server's certificate (SCRAM-SHA-256-PLUS), as libpq's channel_binding means it.
enum class ChannelBinding : std::uint8_t { disable, prefer, require };

// How one core speaks with one PostgreSQL server. All that is a time is in milliseconds.
struct Options {
  // Where; in the order in which they are tried. From the URL: see url.h.
  std::vector<core::Address> addresses;
  // Where `host` is a name, each connection that is opened asks for its addresses; those above serve while there is no
  // answer. Null: the name is not asked for again. Otherwise the mailbox is this core's, and both outlive all use.
  net::Resolver* resolver = nullptr;
  core::Mailbox* mailbox = nullptr;

  // Who, and to which database.
  std::string user;
  std::string password;
  std::string database;
  std::string application_name = "sluice";  // as pg_stat_activity shows it

  // Over TCP; a unix socket never uses TLS.
  SslMode ssl_mode = SslMode::disable;
  std::shared_ptr<const net::tls::ClientContext> tls = {};  // for all modes but `disable`
  std::string host = {};                                    // as the URL names it: whom the certificate must be for
  ChannelBinding channel_binding = ChannelBinding::prefer;

  // Send the password as it is, if the server asks for that, also where TLS does not hide it from all but a server
  // whose certificate was verified.
  bool allow_cleartext_password = false;

  // Connections of this core, at most; they are opened as they are needed.  1 ... 1000
  std::size_t pool_size = 8;
  // How long a request waits for a connection before it fails as unavailable.  0 ... 600000
  std::uint32_t wait_ms = 2000;
  // Requests that may wait for a connection at the same time; the next one fails at once.  0 ... 1000000
  std::size_t wait_limit = 1024;
  // How long a connection may take from the first packet to ready.  1 ... 600000
  std::uint32_t connect_timeout_ms = 5000;
  // How long the server may work before the first row, and between rows that are asked for; 0: without limit.
  std::uint32_t statement_timeout_ms = 30'000;
  // Connections beyond the first that nobody has used for so long are closed; 0: never.
  std::uint32_t idle_ms = 60'000;

  // Named prepared statements, kept per connection, and requests that share one. False for PgBouncer in transaction
  // mode: then every statement is parsed anew, has a connection for itself, and no session setting is relied on.
  bool prepared = true;
  // Sessions begin with default_transaction_read_only. Without it a request is never sent a second time.
  bool read_only = true;
  // Requests in flight on one shared connection before the next one is taken.  1 ... 4096
  std::size_t pipeline = 64;
  // A shared request that takes longer is slow: its statement has connections of its own until it is quick again.
  std::uint32_t slow_ms = 20;
  // Shared requests of one turn that may have one Sync, and so one transaction, in common.  1 ... 64
  std::size_t batch = 1;

  // A statement that is read in parallel is asked for in ranges of so many blocks; all at once where the table has
  // fewer than `range_least_blocks`.
  std::uint32_t range_blocks = 128;
  std::uint32_t range_least_blocks = 512;

  // The largest row, in bytes on the wire; a larger one ends its request.  1024 ... 1 GiB
  std::size_t max_row_bytes = std::size_t{1} << 30;
};

}  // namespace sluice::sql::postgres
