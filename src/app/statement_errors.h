#pragma once

#include <vector>

#include "app/config/load.h"

namespace sluice::app {

// For a configuration with errors: prepares its statements on the databases, so that one run reports both. Adds only
// errors about names and syntax, which cannot follow from the errors that are known.
void add_statement_errors(const config::Config& config, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
