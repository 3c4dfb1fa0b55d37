#pragma once

#include <memory>

#include "app/prepare.h"

namespace sluice::app {

// Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once. Returns the exit code. Throws what
// keeps it from starting.
[[nodiscard]] int serve(const std::shared_ptr<const Plan>& plan);

}  // namespace sluice::app
