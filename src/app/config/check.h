#pragma once

#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// What no single key can see: names that must exist, paths that must differ, defaults that must fit their type. Fills
// in an endpoint's database where there is only one, and what sources take from the environment. Values that are empty
// were complained about before.
void check(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
