#pragma once

#include <cstdio>
#include <string>

namespace sluice::app {

// `sluice reload`: makes the server with this admin listener read its configuration again, and waits for the result.
// Returns the program's exit code.
[[nodiscard]] int request_reload(const std::string& admin, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
