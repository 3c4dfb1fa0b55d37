#pragma once

#include <memory>

#include "app/config/source.h"
#include "app/prepare/prepare.h"

namespace sluice::app {

// Serves until SIGTERM or SIGINT, then drains. A second signal ends the program at once. `source`: the configuration
// that the plan was made from; a reload reads its file again. Returns the exit code. Throws if the server cannot start.
[[nodiscard]] int serve(const config::Source& source, const std::shared_ptr<const Plan>& plan);

}  // namespace sluice::app
