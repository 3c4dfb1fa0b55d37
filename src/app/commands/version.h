#pragma once

#include <string>

namespace sluice::app {

// The text of `sluice --version`, without a line feed at its end: the version, the commit, the compiler, and the
// versions of the libraries that this process uses.
[[nodiscard]] std::string version_text();

}  // namespace sluice::app
