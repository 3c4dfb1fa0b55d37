#include "msg/server.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "core/sleep.h"

namespace sluice::msg {
namespace {

constexpr Duration close_every = 10ms;

}  // namespace

Server::~Server() { acceptor_.stop(); }

core::Handle& Server::next_handle() {
  if (next_ == nullptr) {
    next_ = new TcpSession(sessions_, tls_);
    next_owner_ = SessionRef(*next_);
  }
  return next_->handle();
}

void Server::accepted(const core::Address& peer, bool secure) {
  SLUICE_ASSERT(!secure || tls_context_ != nullptr);
  TcpSession& session = *std::exchange(next_, nullptr);
  const SessionRef owner = std::move(next_owner_);
  ++sessions_.counting().accepted;
  std::string ip = peer.ip();
  if (!sessions_.admits(ip)) {
    ++sessions_.counting().refused;
    if (!secure) session.refuse();
    return;
  }
  session.begin(std::move(ip), secure ? tls_context_ : nullptr, door_);
}

void Server::dropped(net::Acceptor::Dropped why) noexcept {
  next_ = nullptr;
  next_owner_ = {};
  ++(why == net::Acceptor::Dropped::no_memory ? sessions_.counting().out_of_memory : sessions_.counting().refused);
}

void Server::close_own() {
  for (Session* const session : sessions_.all()) {
    if (session->server() == tls_.get()) session->close();
  }
}

void Server::drain(Duration over) {
  if (std::exchange(draining_, true)) return;
  acceptor_.stop();
  closing_.spawn(close_sessions(over));
}

core::Task<void> Server::close_sessions(Duration over) {
  std::vector<std::uint64_t> ids;
  for (const Session* session : sessions_.all()) ids.push_back(session->id());
  const Instant begin = reactor().now();
  const auto steps = std::max<std::int64_t>(over / close_every, 1);
  std::size_t closed = 0;
  for (std::int64_t step = 1; closed < ids.size(); ++step) {
    const std::size_t until =
        ids.size() * static_cast<std::size_t>(std::min(step, steps)) / static_cast<std::size_t>(steps);
    for (; closed < until; ++closed) {
      if (Session* const session = sessions_.find(ids[closed])) session->close(Ended::by_server);
    }
    if (closed < ids.size()) co_await core::Sleep(reactor(), begin + step * close_every);
  }
}

}  // namespace sluice::msg
