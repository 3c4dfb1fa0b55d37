#pragma once

#include <memory>
#include <string>

#include "app/config/source.h"
#include "app/prepare/prepare.h"

namespace sluice::app {

// Serves until SIGTERM or SIGINT, then drains. A second signal ends the program at once. `source`: the configuration
// that the plan was made from; a reload reads its file again. `open`: called with the server's URL when it serves; may be
// null. Returns the exit code. Throws if the server cannot start.
[[nodiscard]] int serve(const config::Source& source, const std::shared_ptr<const Plan>& plan,
                        void (*open)(const std::string& url) = nullptr);

}  // namespace sluice::app
