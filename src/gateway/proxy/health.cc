#include "gateway/proxy/health.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"

namespace sluice::gateway {
namespace {

bool is_out(const Health::Server& server) {
  return server.state == Health::State::ejected || server.state == Health::State::probing;
}

std::uint32_t add(std::uint32_t count, std::uint32_t more) {
  return more > std::numeric_limits<std::uint32_t>::max() - count ? std::numeric_limits<std::uint32_t>::max()
                                                                  : count + more;
}

}  // namespace

std::string_view name_of(Health::State state) {
  static constexpr std::string_view names[] = {"up", "ejected", "probing", "slow_start"};
  return names[static_cast<std::size_t>(state)];
}

unsigned Health::out() const {
  return static_cast<unsigned>(std::ranges::count_if(servers_, [](const Server* one) { return is_out(*one); }));
}

unsigned Health::most_out() const {
  const auto count = static_cast<unsigned>(servers_.size());
  if (count <= 1 || options_.percent == 0) return 0;
  return std::max(1U, count * options_.percent / 100);
}

bool Health::may_eject() const { return out() < most_out(); }

void Health::set_state(Server& server, State state, Instant now) {
  server.state = state;
  switch (state) {
    case State::up:
      server.share = 100;
      server.up_since = now;
      break;
    case State::ejected:
      server.share = 0;
      server.failures = 0;
      server.failed_probes = 0;
      server.passed_probes = 0;
      server.until = now + server.lasts;
      ++server.ejections;
      break;
    case State::probing:
      server.permit = ++permits_;
      server.permit_core = next_core_++ % options_.cores;
      break;
    case State::slow_start:
      server.share = step;
      server.until = now + options_.slow_start / (100 / step);
      break;
  }
}

void Health::eject(Server& server, Instant now) {
  // If the server was up for at least as long as its last ejection, the next one is as short as the first.
  const bool was_well = server.state == State::up && now - server.up_since >= server.lasts;
  const bool is_first = server.lasts == Duration{} || was_well;
  server.lasts = is_first ? options_.time : server.lasts > options_.longest / 2 ? options_.longest : server.lasts * 2;
  server.lasts = std::min(server.lasts, options_.longest);
  set_state(server, State::ejected, now);
}

bool Health::report(Server& server, bool has_passed, std::uint32_t failed, Instant now) {
  if (is_out(server)) return false;  // these requests were sent before it was ejected
  server.failures = add(has_passed ? 0 : server.failures, failed);
  if (options_.after == 0 || server.failures < options_.after || !may_eject()) return false;
  eject(server, now);
  return true;
}

bool Health::probed(Server& server, bool has_passed, Instant now) {
  if (has_passed) {
    server.failed_probes = 0;
    server.passed_probes = std::min(add(server.passed_probes, 1), options_.rise);
    const bool is_back = is_well(server) && std::exchange(server.is_removed, false);
    return advance(server, now) || is_back;
  }
  server.passed_probes = 0;
  server.failed_probes = add(server.failed_probes, 1);
  if (server.is_removed || server.failed_probes < options_.fall) return false;
  if (server.state != State::ejected) eject(server, now);
  server.is_removed = true;
  return true;
}

bool Health::tried(Server& server, std::uint64_t permit, Trial result, Instant now) {
  if (server.state != State::probing || server.permit != permit) return false;
  switch (result) {
    case Trial::passed:
      set_state(server, options_.slow_start > Duration{} ? State::slow_start : State::up, now);
      break;
    case Trial::failed:
      eject(server, now);
      break;
    case Trial::unused:
      set_state(server, State::probing, now);
      break;
  }
  return true;
}

bool Health::advance(Server& server, Instant now) {
  if (server.state == State::ejected && now >= server.until && is_well(server)) {
    set_state(server, State::probing, now);
    return true;
  }
  if (server.state != State::slow_start || now < server.until) return false;
  server.share += step;
  server.until = now + options_.slow_start / (100 / step);
  if (server.share >= 100) set_state(server, State::up, now);
  return true;
}

Instant Health::next() const {
  Instant next = never;
  for (const Server* one : servers_) {
    const bool waits = (one->state == State::ejected && is_well(*one)) || one->state == State::slow_start;
    if (waits) next = std::min(next, one->until);
  }
  return next;
}

void Health::validate() const {
  for (const Server* one : servers_) {
    SLUICE_ASSERT((one->share == 0) == is_out(*one));
    SLUICE_ASSERT(one->state != State::up || one->share == 100);
    SLUICE_ASSERT(one->state != State::slow_start || (one->share < 100 && one->share % step == 0));
    SLUICE_ASSERT(!is_out(*one) || one->failures == 0);
    SLUICE_ASSERT(!one->is_removed || (one->state == State::ejected && one->passed_probes < options_.rise));
    SLUICE_ASSERT(one->lasts <= options_.longest);
    SLUICE_ASSERT(one->state != State::probing || (one->permit != 0 && one->permit_core < options_.cores));
  }
}

}  // namespace sluice::gateway
