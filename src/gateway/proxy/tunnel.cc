#include "gateway/proxy/tunnel.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/next_turn.h"
#include "http/identity.h"
#include "net/stream_duplex.h"

namespace sluice::gateway {
namespace {

constexpr std::size_t turn_bytes = 128 * 1024;  // forwarded per direction in one turn of the event loop

}  // namespace

void Tunnels::cut(Instant until, const std::function<bool(const Tunnel&)>& wanted) {
  for (Tunnel* tunnel = newest_; tunnel != nullptr; tunnel = tunnel->next_) {
    if (!wanted(*tunnel)) continue;
    tunnel->cut_at_ = std::min(tunnel->cut_at_, until);
    if (tunnel->running_ != nullptr) tunnel->running_->wake.ring();
  }
}

Tunnel::Tunnel(std::shared_ptr<Upstream> upstream, Upstream::Attempt attempt, http::client::Pool::Lease connection,
               std::shared_ptr<const void> route, Timeouts timeouts, http::Standing standing)
    : upstream_(std::move(upstream)),
      attempt_(std::move(attempt)),
      connection_(std::move(connection)),
      route_(std::move(route)),
      timeouts_(timeouts),
      standing_(std::move(standing)),
      next_(upstream_->tunnels.newest_) {
  if (next_ != nullptr) next_->previous_ = this;
  upstream_->tunnels.newest_ = this;
  Tunnels::Counters& counters = attempt_.server().tunnelled;
  ++counters.begun;
  ++counters.open;
}

Tunnel::~Tunnel() {
  --attempt_.server().tunnelled.open;
  (previous_ != nullptr ? previous_->next_ : upstream_->tunnels.newest_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

core::Task<void> Tunnel::run(net::Duplex& client, http::BodyBudget&, std::uint64_t&) {
  core::Reactor& reactor = client.reactor();
  net::StreamDuplex server = connection_->take_over();
  Running running(reactor);
  struct Place {
    Tunnel& tunnel;
    ~Place() { tunnel.running_ = nullptr; }
  } place{*this};
  running_ = &running;
  core::TaskGroup ways;
  ways.spawn(carry(client, server, running));
  ways.spawn(carry(server, client, running));
  while (running.ended < 2 && !running.broken) {
    const Duration silence = running.ended == 0 ? timeouts_.silence : timeouts_.half_closed;
    const Instant until = std::min(running.active + silence, cut_at_);
    if (reactor.now() >= until || standing_.is_over(reactor)) break;
    (void)co_await running.wake.wait(std::min(until, standing_.next_look(reactor)));
  }
  ways.cancel();
  if (running.ended == 2) co_return;
  client.cut();
  server.cut();
}

core::Task<void> Tunnel::carry(net::Duplex& from, net::Duplex& to, Running& running) const {
  bool whole = false;
  try {
    whole = co_await carry_all(from, to, running);
  } catch (const std::bad_alloc&) {
    // Lack of memory ends the tunnel like a lost connection.
  }
  if (whole) ++running.ended;
  running.broken |= !whole;
  running.active = from.reactor().now();
  running.wake.ring();
}

core::Task<bool> Tunnel::carry_all(net::Duplex& from, net::Duplex& to, Running& running) const {
  core::Reactor& reactor = from.reactor();
  core::TurnShare turn(reactor, turn_bytes);
  Buffer buffer;
  for (;;) {
    const auto got = from.try_read(buffer, most_bytes);
    if (!got) {
      buffer.release();
      if (!co_await from.readable(never)) co_return false;
      (void)buffer.reserve(most_bytes);
      continue;
    }
    if (!*got) co_return false;
    running.active = reactor.now();
    if (**got == 0) co_return (co_await to.end(timeouts_.silence)).has_value();
    iovec part{buffer.data(), buffer.size()};
    if (!co_await to.write({&part, 1}, timeouts_.silence)) co_return false;
    running.active = reactor.now();
    buffer.clear();
    if (turn.spend(**got)) co_await turn.next_turn();
  }
}

}  // namespace sluice::gateway
