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

// Gives each resident table that `before` (which may be null) does not have its first version, one after the other.
// `file`: that the plan is from. `patient`: waits for databases as their `start_timeout` says.
[[nodiscard]] std::expected<void, Refusal> load_residents(const std::string& file, const Plan& plan, const Plan* before,
                                                          bool patient);

// Keeps resident tables fresh, on one core: runs their queries again when it is time, or when the database says so, and
// brings what is new to all cores. What cannot be loaded stays as it was.
class Residents {
 public:
  // All outlive it, and it outlives the core's run().
  Residents(core::Core& core, std::span<Worker* const> workers, core::BlockingPool& threads);
  Residents(const Residents&) = delete;
  ~Residents();

  // Refreshes the plan's tables from now on, and no others. The core has built a site of the plan, or serves it. Throws
  // what cannot be listened for.
  void follow(const Plan& plan);

  // What the refreshers count; each core has readings of the same tables beside these.
  [[nodiscard]] Readings readings() const;

 private:
  class Listener;
  struct Kept;

  core::Task<void> end(std::unique_ptr<Kept> kept);

  core::Core& core_;
  const std::span<Worker* const> workers_;
  core::BlockingPool& threads_;
  std::vector<std::unique_ptr<Kept>> kept_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace sluice::app
