#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/limits/key.h"
#include "gateway/limits/options.h"
#include "gateway/limits/permits.h"
#include "gateway/policy.h"

namespace sluice::gateway::limits {

// One core's [policy.NAME] of type "concurrency". While as many requests run as are allowed, further requests wait in a
// queue. A request is answered with 503 if the queue is full or if no running request ends in time. A request runs
// until its answer has been sent, a WebSocket until it has ended.
class ConcurrencyPolicy final : public PolicyOf<ConcurrencyPolicy> {
 public:
  ConcurrencyPolicy(const ConcurrencyOptions& options, const std::shared_ptr<Shared>& shared, core::Reactor& reactor,
                    core::MeshPort& port, bool dry_run = false);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void ended(http::Exchange& exchange, http::Slot& slot, const http::Outcome& outcome) override;

  void used_by(std::uint16_t route, const http::Pattern& pattern) override { keys_.used_by(route, pattern); }
  void begin() override { permits_->serve(room_, this); }
  [[nodiscard]] Readings readings() const override;

 private:
  struct Counters {
    std::uint64_t granted = 0;
    std::uint64_t waited = 0;
    std::uint64_t refused = 0;
    std::uint64_t late = 0;
    std::uint64_t full = 0;
    std::uint64_t running = 0;  // gauge
  };

  [[nodiscard]] std::optional<http::Response> judge(Permits::Answer answer, const Key& key, http::Slot& slot);
  [[nodiscard]] core::Task<std::optional<http::Response>> judge_later(core::Task<Permits::Answer> taking, Key key,
                                                                      http::Slot& slot);
  [[nodiscard]] Key take_held(http::Slot& slot);

  const Room room_;
  KeyMaker keys_;
  const std::shared_ptr<Permits> permits_;
  // Keys of requests that have a permit. The value of a request's slot is its index plus 1.
  std::vector<Key> held_;
  std::vector<std::uint32_t> free_;  // indexes in held_
  Counters counters_;
};

}  // namespace sluice::gateway::limits
