#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace sluice::gateway {

// Decides which servers of one upstream get requests. Runs on one core, with the reports of all cores about their
// requests and with the results of probes. It does no I/O; the caller passes the time.
//
//             fails                time is over, probes pass          the request passes
//   up, slow_start -> ejected -------------------------------> probing -----------------> slow_start -> up
//                        ^------------------------------------------'  the request fails
//
// Failed probes may eject every server. Failed requests eject a server only while at most `percent` percent of the
// servers are ejected or probing. One of several servers may always be ejected, unless `percent` is 0. The only server
// of an upstream is never ejected because of failed requests, except by the request that tries it.
//
// An ejected server is removed while its probes fail: from `fall` failed probes in a row until `rise` passed ones. If
// all servers are ejected, those that are not removed get requests.
class Health {
 public:
  enum class State : std::uint8_t { up, ejected, probing, slow_start };

  struct Options {
    std::uint32_t after = 5;  // failed requests in a row; 0: failures do not eject
    Duration time = 10s;      // of the first ejection
    Duration longest = 5min;
    unsigned percent = 50;
    Duration slow_start = 10s;
    bool has_probes = false;
    std::uint32_t rise = 2;
    std::uint32_t fall = 3;
    unsigned cores = 1;
  };

  struct Server {
    State state = State::up;
    std::uint32_t share = 100;  // percent of its weight that is in effect; 0: it gets no requests
    Instant until{};            // when the ejection, or the current step of the slow start, ends
    Duration lasts{};           // duration of the last ejection
    Instant up_since{};
    std::uint32_t failures = 0;       // failed requests in a row, while up or in slow start
    std::uint32_t failed_probes = 0;  // in a row
    std::uint32_t passed_probes = 0;  // in a row, up to `rise`
    bool is_removed = false;
    // probing: the core that may send the request. Each permit has a unique number.
    unsigned permit_core = 0;
    std::uint64_t permit = 0;
    std::uint64_t ejections = 0;
  };

  // The result of the single request that a permit allows.
  enum class Trial : std::uint8_t { passed, failed, unused };

  explicit Health(const Options& options) : options_(options) {}

  // Replaces the servers. They outlive this object.
  void set_servers(std::vector<Server*> servers) { servers_ = std::move(servers); }

  // These return whether something has changed that all cores must know.
  //
  // A report of one core about the time since its last report: whether a request passed, and how many failed after the
  // last one that passed.
  bool report(Server& server, bool has_passed, std::uint32_t failed, Instant now);
  bool probed(Server& server, bool has_passed, Instant now);
  bool tried(Server& server, std::uint64_t permit, Trial result, Instant now);
  bool advance(Server& server, Instant now);
  // When advance() must be called next; `never` if there is nothing to do.
  [[nodiscard]] Instant next() const;

  // Asserts what each state promises.
  void validate() const;

 private:
  static constexpr std::uint32_t step = 10;  // percent

  void eject(Server& server, Instant now);
  [[nodiscard]] bool may_eject() const;
  void set_state(Server& server, State state, Instant now);
  [[nodiscard]] bool is_well(const Server& server) const {
    return !options_.has_probes || server.passed_probes >= options_.rise;
  }
  [[nodiscard]] unsigned most_out() const;
  [[nodiscard]] unsigned out() const;

  const Options options_;
  std::vector<Server*> servers_;
  std::uint64_t permits_ = 0;
  unsigned next_core_ = 0;
};

[[nodiscard]] std::string_view name_of(Health::State state);

}  // namespace sluice::gateway
