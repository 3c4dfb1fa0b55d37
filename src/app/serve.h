#pragma once

#include <memory>
#include <string>

#include "app/prepare.h"

namespace sluice::app {

// Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once. `file`: which the plan was made of, and
// which is read again when somebody asks. Returns the exit code. Throws what keeps it from starting.
[[nodiscard]] int serve(const std::string& file, const std::shared_ptr<const Plan>& plan);

}  // namespace sluice::app
