#pragma once

#include <expected>
#include <memory>
#include <string>

#include "app/config/load.h"
#include "app/plan.h"

namespace sluice::app {

// Why there is no plan: text for the operator, and what the program exits with.
struct Refusal {
  std::string text;
  int exit_code = 0;
};

// Reaches every database and describes every statement. A wrong column is a configuration error that names its place in
// the file; a database that cannot be reached is a failure, where `patient` after its `start_timeout`.
// `previous`: what is served, whose ids of routes and events go on; null: nothing is.
[[nodiscard]] std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient,
                                                                          const Plan* previous = nullptr);

}  // namespace sluice::app
