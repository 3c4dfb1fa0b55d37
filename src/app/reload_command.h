#pragma once

#include <cstdio>
#include <string>

namespace sluice::app {

// `sluice reload`: has the server with this admin listener read its configuration again, and waits until it has.
// Returns the program's exit code.
[[nodiscard]] int request_reload(const std::string& admin, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
