#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/task.h"

namespace sluice::runtime {

// The metrics of the process that Prometheus's own clients have: memory, CPU time, open files, time of the start.
class ProcessReadings {
 public:
  // `core`: that calls gather().
  explicit ProcessReadings(core::Core& core);
  [[nodiscard]] core::Task<Readings> gather();

 private:
  core::Core& core_;
  const double start_s_;  // Unix time
  // Linux before 6.2 can only list the open files, which takes about a second if they are 100,000. A thread does that.
  std::optional<core::BlockingPool> lister_;
};

// The number of open files, which Linux keeps since version 6.2. Nothing if it does not.
[[nodiscard]] std::optional<std::uint64_t> count_open_files();
// Counts them one by one. Nothing if /proc cannot be read.
[[nodiscard]] std::optional<std::uint64_t> list_open_files();

}  // namespace sluice::runtime
