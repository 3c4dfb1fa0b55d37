#pragma once

#include <vector>

#include "app/config/load.h"

namespace sluice::app {

// For a configuration that already has errors: prepares its statements on the databases, so that one run reports all
// errors. Adds only errors about names and syntax, because other errors could be consequences of the known ones.
void add_statement_errors(const config::Config& config, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
