#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/timer.h"
#include "gateway/proxy/health.h"
#include "gateway/proxy/name_watch.h"
#include "gateway/proxy/probe.h"
#include "gateway/proxy/shared_upstream.h"

namespace sluice::gateway {

// Decides for all cores which servers of an upstream get requests. One core, the owner, has it. It hears the results of
// the requests of all cores, probes the servers, looks up their names, and drains the ones that an operator names.
class UpstreamKeeper {
 public:
  // A core's report about a server.
  struct Report {
    std::uint64_t id = 0;
    std::uint64_t permit = 0;  // the permit that `trial` is about; 0: none
    std::uint32_t failed = 0;  // requests after the last one that passed
    bool has_passed = false;
    Health::Trial trial{};
  };
  // The state of a server, for the cores.
  struct Told {
    std::uint64_t id = 0;
    std::uint32_t share = 100;
    bool is_removed = false;
    unsigned permit_core = 0;
    std::uint64_t permit = 0;  // 0: none
  };
  struct AllTold {
    std::vector<Told> servers;
    std::shared_ptr<const SharedUpstream::Addresses> addresses;  // null: they are unchanged
  };
  // Gives that to a core.
  using Tell = std::function<void(unsigned core, std::shared_ptr<const AllTold> told)>;

  // All arguments outlive this object.
  UpstreamKeeper(core::Reactor& reactor, core::Mailbox& mailbox, unsigned cores,
                 std::shared_ptr<const SharedUpstream> shared, Tell tell);
  UpstreamKeeper(const UpstreamKeeper&) = delete;

  // Switches to another version. Servers that stay keep their states.
  void serve(std::shared_ptr<const SharedUpstream> shared);
  void hear(const std::vector<Report>& reports);
  // Sends the states of all servers to a core, and their addresses.
  void tell_everything(unsigned core);
  // See Upstream::drain().
  bool drain(const std::string& name, bool is_drained);

  // Empty if there is no such server.
  [[nodiscard]] std::string_view state_of(std::uint64_t id) const;
  [[nodiscard]] Readings readings_of(std::uint64_t id) const;

 private:
  struct Server {
    std::uint64_t id = 0;
    std::string address;  // SharedUpstream::Server::name
    std::string entry;    // SharedUpstream::Server::entry
    bool is_drained = false;
    Health::Server health{};
    Health::State logged = Health::State::up;
    std::optional<Probe> probe{};
  };
  struct Tick final : core::Timer {
    explicit Tick(UpstreamKeeper& keeper)
        : Timer([](core::Timer& timer) noexcept { static_cast<Tick&>(timer).keeper.tick(); }), keeper(keeper) {}
    UpstreamKeeper& keeper;
  };

  [[nodiscard]] Server* find(std::uint64_t id) const;
  [[nodiscard]] bool is_drained(const Server& server) const;
  // Makes the list of servers anew.
  void arrange();
  void watch_names();
  void hear_addresses(const std::string& name, const net::Resolver::Answer& answer);
  void hear_probe(Server& server, std::string_view fault);
  void tick();
  void plan_tick();
  // Logs the server's new state, and sends it to all cores.
  void changed(Server& server, std::string_view why);
  void tell_all(const Server& server) const;
  [[nodiscard]] static Told told_of(const Server& server);

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  const unsigned cores_;
  std::shared_ptr<const SharedUpstream> shared_;
  const Tell tell_;
  Health health_;
  std::shared_ptr<const SharedUpstream::Addresses> addresses_ = SharedUpstream::no_addresses();
  std::vector<std::unique_ptr<Server>> servers_;  // in the configuration's order
  std::map<std::string, NameWatch> names_;        // by the name of the configuration's server
  Tick tick_{*this};
};

}  // namespace sluice::gateway
