#pragma once

#include <expected>
#include <memory>
#include <span>
#include <vector>

#include "api/resident/resident.h"
#include "app/prepare.h"
#include "app/refresher.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "sql/changes.h"
#include "sql/open.h"

namespace sluice::app {

class Worker;

// By index in Plan::residents.
struct FirstLoads {
  std::vector<api::resident::Edition> editions;
  std::vector<Mark> marks;
};

// The first version of each resident table, before anybody is served; waits for databases as their `start_timeout`
// says.
[[nodiscard]] std::expected<FirstLoads, Refusal> load_residents(const Plan& plan);

// Keeps resident tables fresh, on one core: runs their queries again when it is time, or when the database says so, and
// brings what is new to all cores. What cannot be loaded stays as it was.
class Residents {
 public:
  // All outlive it, and it outlives the core's run(). Throws what cannot be listened for.
  Residents(core::Core& core, const Plan& plan, std::span<Worker* const> workers, const FirstLoads& loads,
            std::span<const std::unique_ptr<sql::SharedDatabase>> shared, core::BlockingPool& threads);
  Residents(const Residents&) = delete;
  ~Residents();

  // What the refreshers count; each core has readings of the same tables beside these.
  [[nodiscard]] Readings readings() const;

 private:
  class Listener;

  std::vector<std::unique_ptr<Refresher>> refreshers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace sluice::app
