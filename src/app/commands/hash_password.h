#pragma once

#include <cstdio>

namespace sluice::app {

// `sluice hash-password`: prints the hash of the password in the first line of standard input. If that is a terminal,
// the password is not echoed.
[[nodiscard]] int print_hash(std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
