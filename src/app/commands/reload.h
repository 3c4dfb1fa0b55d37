#pragma once

#include <cstdio>
#include <optional>
#include <string>

namespace sluice::app {

// `sluice reload`: makes a running server read its configuration again, and waits for the result. `url` is that of its
// admin listener; nullopt: the one that `file` says. The token is that of `file`.
// Returns the program's exit code.
[[nodiscard]] int request_reload(const std::optional<std::string>& url, const std::string& file, std::FILE* out,
                                 std::FILE* errors);

}  // namespace sluice::app
