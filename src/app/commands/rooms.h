#pragma once

#include <cstdio>

#include "app/config/load.h"

namespace sluice::app {

// `sluice rooms sql`: prints the statements of the counters and triggers of [[room]]. `apply`: executes them instead.
[[nodiscard]] int room_tables(const config::Config& config, bool apply, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
