#pragma once

#include <vector>

#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// Puts the policies of [defaults] before those of each table with `use`, except where `public` is set.
void apply_defaults(Options& options, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
