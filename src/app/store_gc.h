#pragma once

#include <cstdio>

#include "app/config/load.h"

namespace sluice::app {

// `sluice store gc`: removes files of stores that no row refers to and that were not sent recently. Removes nothing if
// it cannot determine all references. Returns the program's exit code.
[[nodiscard]] int collect_garbage(const config::Config& config, bool dry_run, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
