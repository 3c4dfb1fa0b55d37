#pragma once

#include <vector>

#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// What no single key can see: names that must exist, paths that must differ, defaults that must fit their type. Fills
// in an endpoint's database where there is only one. Values that are empty were complained about before.
void check(Options& options, const Source& source, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
