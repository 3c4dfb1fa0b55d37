#pragma once

#include <expected>
#include <memory>
#include <string>

#include "app/config/load.h"
#include "app/plan.h"

namespace sluice::app {

// Why there is no plan: text for the operator, and the program's exit code.
struct Refusal {
  std::string text;
  int exit_code = 0;
};

// Connects to every database and describes every statement. A wrong column is a configuration error with its place in
// the file. A database that cannot be reached is a failure; if `patient`, only after its `start_timeout`. `previous`:
// the plan that is served, whose route ids and event ids stay in use; may be null.
[[nodiscard]] std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient,
                                                                          const Plan* previous = nullptr);

}  // namespace sluice::app
