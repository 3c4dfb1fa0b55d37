#pragma once

#include <cstdio>

#include "app/import/options.h"

namespace sluice::app::import {

// `sluice import`: copies the rows of a file into a table. Rows whose key exists are updated, the others inserted; no
// row is deleted. Each batch is a transaction. An import that is started again continues after the last finished batch.
// Returns the program's exit code. Errors go to `err`, the summary to `out`.
[[nodiscard]] int run_import(const Options& options, std::FILE* out, std::FILE* err);

}  // namespace sluice::app::import
