#pragma once

#include <vector>

#include "app/config/load.h"

namespace sluice::app {

// Of a file that is wrong: what its databases say of its statements all the same, so that one run finds both. Adds only
// what does not follow from what is wrong already: names and syntax.
void add_statement_errors(const config::Config& config, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
