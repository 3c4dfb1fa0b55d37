#pragma once

#include <expected>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/reading.h"
#include "core/core.h"
#include "core/task.h"
#include "runtime/metrics.h"
#include "runtime/per_core.h"
#include "runtime/process_readings.h"

namespace sluice::runtime {

// Gathers the numbers and the state of all cores for the admin listener, on its core.
class Gatherer {
 public:
  // `per_core` as for Admin.
  Gatherer(core::Core& core, std::span<PerCore* const> per_core) : core_(core), per_core_(per_core), process_(core) {}

  // Adds readings of the process.
  void add(std::function<Readings()> readings) { more_.push_back(std::move(readings)); }

  // The readings of all cores and of the process, or why there are none now. Throws std::bad_alloc.
  [[nodiscard]] core::Task<std::expected<ReadingSums, std::string>> gather();
  // Ready: not about to end, every core has its keys, every database answers on every core, and every required upstream
  // has a server. Each core has its own connections, which may recover at different times.
  [[nodiscard]] core::Task<Readiness> find_readiness();

 private:
  core::Core& core_;
  std::span<PerCore* const> per_core_;
  std::vector<std::function<Readings()>> more_;
  ProcessReadings process_;
};

}  // namespace sluice::runtime
