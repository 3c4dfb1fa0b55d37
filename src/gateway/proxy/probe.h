#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/alarm.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "gateway/proxy/options.h"
#include "http/client/pool.h"
#include "net/resolver.h"

namespace sluice::gateway {

// Probes one server at regular intervals, each time on a new connection.
class Probe {
 public:
  struct Counters {
    std::uint64_t passed = 0;
    std::uint64_t failed = 0;
  };
  // `fault`: why the server is not healthy; empty if it is.
  using Told = std::function<void(std::string_view fault)>;

  // `host`: as in a Host field. `pool`: options for connections to the servers of the upstream. All references and
  // `resolver` outlive this object; `resolver` may be null, as for http::client::Pool.
  Probe(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver* resolver, http::client::Origin origin,
        http::client::PoolOptions pool, const HealthOptions& options, std::string host, Told told);
  Probe(const Probe&) = delete;

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  [[nodiscard]] core::Task<void> run();
  [[nodiscard]] core::Task<void> ask();
  [[nodiscard]] core::Task<void> find_fault();
  // Returns whether the body of the response contains the text that it must contain.
  [[nodiscard]] core::Task<bool> has_text(http::client::Connection& connection) const;

  core::Reactor& reactor_;
  const HealthOptions options_;
  const StatusRange wanted_;
  const std::string host_;
  std::vector<http::Field> fields_;  // those of options_
  const Told told_;
  http::client::Pool pool_;
  core::Alarm asked_;
  std::string fault_;           // of the last probe
  bool has_no_memory_ = false;  // the last probe failed for lack of memory
  Counters counters_;
  core::TaskGroup asking_;
  core::TaskGroup running_;
};

}  // namespace sluice::gateway
