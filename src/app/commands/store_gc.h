#pragma once

#include <cstdio>
#include <string>

#include "app/config/load.h"

namespace sluice::app {

// `sluice store gc`: removes files of stores that no row refers to and that were not sent recently. Removes nothing if
// it cannot determine all references. `url`: replaces that of the database; empty: the configuration's. Returns the
// program's exit code.
[[nodiscard]] int collect_garbage(const config::Config& config, bool dry_run, const std::string& url, std::FILE* out,
                                  std::FILE* errors);

}  // namespace sluice::app
