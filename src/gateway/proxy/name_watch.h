#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/address.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "net/resolver.h"

namespace sluice::gateway {

// Looks up a host name, and does so again whenever its addresses expire.
class NameWatch {
 public:
  // Called with each answer, also if it is the same as before.
  using Told = std::function<void(const net::Resolver::Answer&)>;

  // The references outlive this object. `told` must not destroy it.
  NameWatch(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver& resolver, std::string host, Told told);
  NameWatch(const NameWatch&) = delete;

 private:
  [[nodiscard]] core::Task<void> run();

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  net::Resolver& resolver_;
  const std::string host_;
  const Told told_;
  core::TaskGroup running_;
};

// The addresses of a host name that are servers of their own, in digits and sorted. They all belong to the family with
// more addresses; if both have the same number, to the family of the first address, because that is the one to prefer.
//
// None if no family has several addresses: then the name itself is the server, and connections try its addresses in
// turn. This keeps one server with an IPv4 and an IPv6 address, as "localhost" may be, one server. `is_split`: the name
// has had several addresses before; then a single address stays a server of its own, and so keeps its connections.
[[nodiscard]] std::vector<std::string> servers_among(const std::vector<core::Address>& addresses, bool is_split);

}  // namespace sluice::gateway
