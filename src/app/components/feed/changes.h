#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/plan.h"
#include "base/reading.h"
#include "core/core.h"
#include "sql/changes.h"
#include "sql/open.h"

namespace sluice::app {

class Worker;

// Runs on one core and listens to each database that has endpoints which publish changes. It numbers the events and
// passes them to the feeds of all cores, in order. A slow core delays the listener; meanwhile the database keeps the
// events.
class Changes {
 public:
  // All arguments outlive this object, and it outlives the core's run().
  Changes(core::Core& core, std::span<Worker* const> workers);
  Changes(const Changes&) = delete;
  ~Changes();

  // Also listens for the changes that the plan's feeds publish. Throws if it cannot; then the caller must call leave()
  // with the plan that is served.
  void join(const Plan& plan);
  // Waits until it listens to every database that can be reached.
  [[nodiscard]] core::Task<void> settle();
  // From now on listens only for the plan's feeds.
  void leave(const Plan& plan);

  // Counts the events received; each core counts the events that it sends to its clients.
  [[nodiscard]] Readings readings() const;

 private:
  class Source;

  core::Core& core_;
  const std::span<Worker* const> workers_;
  std::vector<std::unique_ptr<Source>> sources_;
  Readings ended_;  // counts of the sources that have ended
};

}  // namespace sluice::app
