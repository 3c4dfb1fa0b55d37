#pragma once

#include <expected>
#include <memory>
#include <span>
#include <vector>

#include "api/resident/resident.h"
#include "app/components/resident/refresher.h"
#include "app/prepare/prepare.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "sql/changes.h"
#include "sql/open.h"

namespace sluice::app {

class Worker;

// Loads the first version of each resident table that `before` does not have, one table at a time. `before` may be
// null. `patient`: waits for each database up to its `start_timeout`.
[[nodiscard]] std::expected<void, Refusal> load_residents(const Plan& plan, const Plan* before, bool patient);

// Keeps resident tables fresh, on one core. Runs their queries again at their intervals or when the database reports a
// change, and publishes new versions to all cores. If a load fails, the table stays as it was.
class Residents {
 public:
  // All arguments outlive this object, and it outlives the core's run().
  Residents(core::Core& core, std::span<Worker* const> workers, core::BlockingPool& threads);
  Residents(const Residents&) = delete;
  ~Residents();

  // From now on refreshes only the plan's tables. Precondition: the core has built a site of the plan, or serves it.
  // Throws if a channel cannot be listened to.
  void follow(const Plan& plan);

  // The counts of the refreshers. Each core has its own readings of the same tables.
  [[nodiscard]] Readings readings() const;

 private:
  class Listener;
  struct Kept;

  core::Task<void> end(std::unique_ptr<Kept> kept);

  core::Core& core_;
  const std::span<Worker* const> workers_;
  core::BlockingPool& threads_;
  std::vector<std::unique_ptr<Kept>> kept_;
  std::vector<const Kept*> ending_;  // passed to end()
  Readings ended_;                   // the counts of refreshers that have ended
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace sluice::app
