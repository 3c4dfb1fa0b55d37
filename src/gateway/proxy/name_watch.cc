#include "gateway/proxy/name_watch.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/sleep.h"

namespace sluice::gateway {

using net::Resolver;

NameWatch::NameWatch(core::Reactor& reactor, core::Mailbox& mailbox, Resolver& resolver, std::string host, Told told)
    : reactor_(reactor), mailbox_(mailbox), resolver_(resolver), host_(std::move(host)), told_(std::move(told)) {
  running_.spawn(run());
}

core::Task<void> NameWatch::run() {
  constexpr Duration patience = 1min;
  for (;;) {
    Duration lasts = Resolver::failure;
    try {
      const Resolver::Answer answer = co_await resolver_.resolve(mailbox_, host_, reactor_.now() + patience);
      if (answer) lasts = std::max<Duration>((*answer)->until - reactor_.now(), Resolver::shortest);
      told_(answer);
    } catch (const std::bad_alloc&) {
      lasts = Resolver::failure;
    }
    co_await core::Sleep(reactor_, reactor_.now() + lasts);
  }
}

std::vector<std::string> servers_among(const std::vector<core::Address>& addresses, bool is_split) {
  constexpr std::size_t most = 256;
  if (addresses.empty()) return {};
  const int first = addresses[0].family();
  const auto of_first = static_cast<std::size_t>(std::ranges::count(addresses, first, &core::Address::family));
  const bool takes_first = 2 * of_first >= addresses.size();
  std::vector<std::string> servers;
  for (const core::Address& address : addresses) {
    if ((address.family() == first) == takes_first) servers.push_back(address.ip());
  }
  std::ranges::sort(servers);
  const auto [again, end] = std::ranges::unique(servers);
  servers.erase(again, end);
  if (servers.size() > most) servers.resize(most);
  if (servers.size() == 1 && !is_split) servers.clear();
  return servers;
}

}  // namespace sluice::gateway
