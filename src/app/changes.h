#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/changes/event.h"
#include "app/plan.h"
#include "base/reading.h"
#include "core/core.h"
#include "sql/changes.h"
#include "sql/open.h"

namespace sluice::app {

class Worker;

// An event on its way to the feeds of all cores.
struct Delivery {
  const Plan::Feed* feed = nullptr;
  std::shared_ptr<const api::changes::Event> event;
};
using Deliveries = std::vector<Delivery>;

// Listens on one core, once for each database whose changes endpoints tell of, numbers what it hears and brings it to
// the feeds of all cores. Each core gets the events in the same order; one that is slow to take them holds up the
// listener, whose database keeps them meanwhile.
class Changes {
 public:
  // All outlive it, and it outlives the core's run().
  Changes(core::Core& core, std::span<Worker* const> workers);
  Changes(const Changes&) = delete;
  ~Changes();

  // Listens for what the plan's feeds tell of too. Throws what cannot be listened for; then leave() is to follow, with
  // the plan that is served.
  void join(const Plan& plan);
  // Until that is listened for, where the database can be reached.
  [[nodiscard]] core::Task<void> settle();
  // From now on for nothing else than the plan's feeds.
  void leave(const Plan& plan);

  // What is heard; each core counts what it tells its clients.
  [[nodiscard]] Readings readings() const;

 private:
  class Source;

  core::Core& core_;
  const std::span<Worker* const> workers_;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace sluice::app
