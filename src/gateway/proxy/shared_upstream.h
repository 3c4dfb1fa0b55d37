#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "core/sharded.h"
#include "gateway/limits/shared.h"
#include "gateway/proxy/drains.h"
#include "gateway/proxy/hash_key.h"
#include "gateway/proxy/options.h"
#include "http/client/pool.h"
#include "net/resolver.h"
#include "net/tls/context.h"

namespace sluice::gateway {

class Upstream;

// Why TLS connections to the servers of an upstream cannot be set up.
struct TlsProblem {
  Position position;
  std::string text;
};

// Reads the certificate files.
[[nodiscard]] std::expected<std::shared_ptr<const net::tls::ClientContext>, TlsProblem> make_tls_context(
    const UpstreamOptions& options);

// The part of an [[upstream]] of one configuration that all cores share. Immutable once the cores have it.
struct SharedUpstream {
  // The name of a server in logs and metrics: "127.0.0.1:3000", "https://10.0.0.7:8443", "unix:/run/app.sock". It also
  // identifies the server, and hashing uses it.
  [[nodiscard]] static std::string name_of(const http::client::Origin& origin);

  // Shared by all versions of one upstream.
  struct Cores {
    explicit Cores(unsigned count) : all(count), busy(std::make_shared<limits::Shared>(count)) {}

    const core::Sharded<Upstream> all;
    const std::shared_ptr<limits::Shared> busy;  // of the limit of connections
  };
  // A server of the configuration, or one of several addresses of its host name.
  struct Server {
    http::client::Origin origin;
    std::string name{};   // of an address: "app.internal:3000/10.0.0.7"
    std::string entry{};  // the name of the configuration's server
    std::string host{};   // as a Host field names it
    std::string tls_name{};
    std::uint32_t weight = 1;
    bool is_backup = false;
    std::shared_ptr<TroubleLog> trouble{};

    [[nodiscard]] bool has_host_name() const;
    [[nodiscard]] Server at(const std::string& ip, const std::string& upstream) const;
  };
  // The addresses that are servers of their own, by the name of the configuration's server.
  using Addresses = std::map<std::string, std::vector<Server>, std::less<>>;
  // The same object for all cores.
  [[nodiscard]] static std::shared_ptr<const Addresses> no_addresses();

  // `before`: the previous version, which may have other servers or another balancing; may be null. Every core then
  // keeps its Upstream and passes this to serve(). `context`: for https servers.
  explicit SharedUpstream(const UpstreamOptions& of, const SharedUpstream* before = nullptr,
                          std::shared_ptr<const net::tls::ClientContext> context = nullptr,
                          unsigned cores_of_process = 1);
  // Whether a server is given by a host name.
  [[nodiscard]] bool needs_resolver() const;
  // A server of this version, with the entry of the configuration that it belongs to.
  struct Place {
    const Server& server;
    const Server& entry;
  };
  [[nodiscard]] std::vector<Place> places(const Addresses& addresses) const;
  [[nodiscard]] http::client::PoolOptions pool_options(const Server& server) const;

  const UpstreamOptions options;
  const std::optional<HashKey> hash;
  const StatusRange failures;  // statuses that count as failures
  const StatusRange retry_on;
  const std::shared_ptr<const net::tls::ClientContext> tls;  // null: no server uses TLS
  std::vector<Server> servers;
  std::shared_ptr<Cores> cores;
  std::shared_ptr<Drains> drains = std::make_shared<Drains>();  // set before the cores use this
  net::Resolver* resolver = nullptr;  // set before the cores use this, if needed; outlives this object
};

}  // namespace sluice::gateway
