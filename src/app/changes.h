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
  const api::changes::Plan* feed = nullptr;
  std::shared_ptr<const api::changes::Event> event;
};
using Deliveries = std::vector<Delivery>;

// Listens on one core, once for each database whose changes endpoints tell of, numbers what it hears and brings it to
// the feeds of all cores. Each core gets the events in the same order; one that is slow to take them holds up the
// listener, whose database keeps them meanwhile.
class Changes {
 public:
  // Throws what cannot be listened for. All outlive it, and it outlives the core's run().
  Changes(core::Core& core, const Plan& plan, std::span<Worker* const> workers,
          std::span<const std::unique_ptr<sql::SharedDatabase>> shared);
  Changes(const Changes&) = delete;
  ~Changes();

  // What is heard; each core counts what it tells its clients.
  [[nodiscard]] Readings readings() const;

 private:
  class Source;

  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace sluice::app
