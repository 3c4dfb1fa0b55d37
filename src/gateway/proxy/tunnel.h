#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/time.h"
#include "core/alarm.h"
#include "core/task.h"
#include "gateway/proxy/upstream.h"
#include "http/client/pool.h"
#include "http/request.h"
#include "http/response.h"
#include "http/standing.h"

namespace sluice::gateway {

// The connection after an upgrade that a server has accepted: forwards bytes both ways between the client and the
// server. Each direction buffers at most `most_bytes`, and nothing while it is idle: data is read from one side only as
// fast as the other side takes it. When one side ends its stream, the tunnel ends the stream to the other side, and
// still forwards bytes in the other direction. If a connection is lost, both are cut.
//
// The tunnel ends when both sides have ended, after a time without data, when the client's credentials end, and when
// its route, its server or its upstream is removed.
class Tunnel final : public http::Upgrade {
 public:
  static constexpr std::size_t most_bytes = 32 * 1024;
  struct Timeouts {
    Duration silence;      // time without data from either side
    Duration half_closed;  // likewise, after one side has ended
  };

  // `connection` has received a 101. `attempt`: the request that led to it. It keeps the server, and the tunnel counts
  // as one of the server's requests as long as it lasts. `route`: the route that the tunnel belongs to.
  Tunnel(std::shared_ptr<Upstream> upstream, Upstream::Attempt attempt, http::client::Pool::Lease connection,
         std::shared_ptr<const void> route, Timeouts timeouts, http::Standing standing);
  ~Tunnel() override;

  [[nodiscard]] core::Task<void> run(net::Duplex& client, http::BodyBudget& bodies, std::uint64_t& held) override;
  // An unknown protocol has no closing message, so the tunnel continues until the server cuts it.
  void drain() override {}

  [[nodiscard]] const void* route() const { return route_.get(); }
  [[nodiscard]] const Upstream::Server& server() const { return attempt_.server(); }

 private:
  friend class Tunnels;
  // State that exists while the tunnel runs.
  struct Running {
    explicit Running(core::Reactor& reactor) : wake(reactor), active(reactor.now()) {}
    core::Alarm wake;
    Instant active;  // when data was last received or sent
    int ended = 0;   // how many sides have ended their stream
    bool broken = false;
  };

  core::Task<void> carry(net::Duplex& from, net::Duplex& to, Running& running) const;
  core::Task<bool> carry_all(net::Duplex& from, net::Duplex& to, Running& running) const;

  const std::shared_ptr<Upstream> upstream_;
  const Upstream::Attempt attempt_;
  http::client::Pool::Lease connection_;
  const std::shared_ptr<const void> route_;
  const Timeouts timeouts_;
  const http::Standing standing_;  // of the client's credentials
  Instant cut_at_ = never;
  Running* running_ = nullptr;
  Tunnel* next_;  // in the upstream's list of tunnels
  Tunnel* previous_ = nullptr;
};

}  // namespace sluice::gateway
