#pragma once

#include <cstdio>

#include "app/import/options.h"

namespace sluice::app::import {

// `sluice import`: the rows of a file into a table. Rows whose key is there are updated, the others inserted, nothing
// is deleted. Each batch is a transaction, and after it the import goes on from there when it is started again. Returns
// the program's exit code; what is wrong goes to `err`, what has been done to `out`.
[[nodiscard]] int run_import(const Options& options, std::FILE* out, std::FILE* err);

}  // namespace sluice::app::import
