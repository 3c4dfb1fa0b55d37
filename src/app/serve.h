#pragma once

#include <memory>
#include <string>

#include "app/prepare/prepare.h"

namespace sluice::app {

// Serves until SIGTERM or SIGINT, then drains. A second signal ends the program at once. `file`: the configuration that
// the plan was made from; a reload reads it again. Returns the exit code. Throws if the server cannot start.
[[nodiscard]] int serve(const std::string& file, const std::shared_ptr<const Plan>& plan);

}  // namespace sluice::app
