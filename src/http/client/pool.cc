#include "http/client/pool.h"

#include <algorithm>
#include <cerrno>

namespace sluice::http::client {

Pool::Pool(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver* resolver, Origin origin, PoolOptions options)
    : reactor_(reactor),
      mailbox_(mailbox),
      resolver_(resolver),
      origin_(std::move(origin)),
      options_(std::move(options)) {
  idle_.reserve(options_.idle);
}

core::Async<Result<Pool::Lease>> Pool::take(Which which, Instant until) {
  if (which == Which::any && !idle_.empty()) {
    Opened opened = std::move(idle_.back());
    idle_.pop_back();
    opened.connection->wake();
    ++counters_.reused;
    return Result<Lease>(Lease(*this, std::move(opened), true));
  }
  return open(until);
}

core::Task<Result<std::vector<core::Address>>> Pool::find_addresses(Instant deadline) {
  if (!origin_.path.empty()) co_return std::vector{*core::Address::from_path(origin_.path)};
  if (const auto address = core::Address::from_ip(origin_.host, origin_.port)) co_return std::vector{*address};
  if (resolver_ == nullptr) co_return fail(Errc::system, EHOSTUNREACH);
  const net::Resolver::Answer found = co_await resolver_->resolve(mailbox_, origin_.host, deadline);
  if (!found && reactor_.now() >= deadline) co_return fail(Errc::timed_out);
  if (!found) co_return fail(Errc::system, EHOSTUNREACH);
  std::vector<core::Address> addresses;
  for (const core::Address& address : (*found)->list) {
    addresses.push_back(*core::Address::from_ip(address.ip(), origin_.port));
  }
  co_return addresses;
}

core::Task<Result<void>> Pool::connect(Connection& connection, const core::Address& address, Instant deadline) {
  auto connected = co_await connection.connect(address, deadline);
  if (!connected || !origin_.secure) co_return connected;
  const std::string& name = options_.tls_name.empty() ? origin_.host : options_.tls_name;
  connected = co_await connection.connect_tls(options_.tls, name, tls_, deadline, &resumption_);
  counters_.tls_resumed += connected && connection.tls_resumed() ? 1 : 0;
  co_return connected;
}

std::string Pool::describe(const Error& error) const {
  return tls_failure_.empty() ? error.text() : "TLS: " + tls_failure_;
}

core::Task<Result<Pool::Lease>> Pool::open(Instant until) {
  const Instant deadline = std::min(reactor_.now() + options_.connect_timeout, until);
  const auto addresses = co_await find_addresses(deadline);
  Result<void> connected = addresses ? fail(Errc::closed) : std::unexpected(addresses.error());
  std::string failure;
  for (std::size_t i = 0; addresses && i < addresses->size(); ++i) {
    const core::Address& address = (*addresses)[i];
    auto connection = std::make_unique<Connection>(reactor_, options_.connection);
    // The remaining time is shared with the addresses after this one.
    const Instant now = reactor_.now();
    connected = co_await connect(*connection, address, now + (deadline - now) / (addresses->size() - i));
    if (!connected) {
      failure = connection->tls_failure();
      continue;
    }
    ++counters_.opened;
    co_return Lease(*this, {std::move(connection), reactor_.now() + options_.age}, false);
  }
  tls_failure_ = std::move(failure);
  ++counters_.open_failures;
  co_return std::unexpected(connected.error());
}

void Pool::give_back(Opened opened) {
  --lent_;
  if (!opened.connection->is_reusable() || options_.idle == 0) return;
  const Instant until = std::min(opened.age_end, reactor_.now() + options_.idle_time);
  if (until <= reactor_.now() || !opened.connection->rest(*this, until)) return;
  // Drops the least recently used connection.
  if (idle_.size() == options_.idle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(opened));
}

void Pool::ended(Connection& idle) {
  std::erase_if(idle_, [&](const Opened& opened) { return opened.connection.get() == &idle; });
}

}  // namespace sluice::http::client
