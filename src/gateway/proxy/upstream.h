#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/reading.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "gateway/proxy/options.h"
#include "http/client/pool.h"
#include "net/resolver.h"

namespace sluice::gateway {

// What all cores share of an [[upstream]].
struct SharedUpstream {
  explicit SharedUpstream(const UpstreamOptions& of);
  // Some server is a name.
  [[nodiscard]] bool needs_resolver() const;

  const UpstreamOptions options;
  const std::vector<http::client::Origin> servers;
  std::deque<TroubleLog> troubles;    // by index in servers
  net::Resolver* resolver = nullptr;  // before the cores use it, where it is needed; it outlives this
};

// The servers of an [[upstream]], as one core uses them.
class Upstream {
 public:
  struct Server {
    Server(core::Reactor& reactor, core::Mailbox& mailbox, SharedUpstream& shared, std::size_t index);

    std::string address;  // for logs and metrics: "127.0.0.1:3000"
    http::client::Pool pool;
    TroubleLog& trouble;
    std::uint64_t requests = 0;  // that were sent to it
    std::uint64_t failures = 0;  // that it gave no response to, or half of one
  };

  // All outlive it, and it the requests.
  Upstream(core::Reactor& reactor, core::Mailbox& mailbox, std::shared_ptr<SharedUpstream> shared);
  Upstream(const Upstream&) = delete;

  [[nodiscard]] const SharedUpstream& shared() const { return *shared_; }
  [[nodiscard]] std::size_t size() const { return servers_.size(); }
  // Whose turn it is.
  [[nodiscard]] Server& next() {
    if (next_ == servers_.size()) next_ = 0;
    return servers_[next_++];
  }
  [[nodiscard]] Readings readings() const;

 private:
  const std::shared_ptr<SharedUpstream> shared_;
  std::deque<Server> servers_;  // they do not move
  std::size_t next_ = 0;
};

}  // namespace sluice::gateway
