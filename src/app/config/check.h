#pragma once

#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// Checks what involves more than one key: names that must exist, paths that must differ, defaults that must fit their
// type. It sets an endpoint's database if there is only one, and the values of sources from the environment. Skips
// empty values, which have been reported when they were read.
void check(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
