#pragma once

#include <cstdio>
#include <optional>
#include <string>

namespace sluice::app {

// Reads a password from the first line of standard input. If that is a terminal, the password is not echoed. Nothing:
// it cannot be a password, which has been said.
[[nodiscard]] std::optional<std::string> read_password(std::FILE* errors);

// `sluice hash-password`: prints the hash of a password.
[[nodiscard]] int print_hash(std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
