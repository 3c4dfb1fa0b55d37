#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "gateway/jwt/token.h"

namespace sluice::app {

// `sluice keys`: makes a key for tokens.
struct KeysCommand {
  gateway::jwt::Algorithm algorithm = gateway::jwt::Algorithm::es256;
  std::string id;  // also the beginning of the files' names; empty: from the key's thumbprint
  std::string folder = ".";
};

// Returns why a key's id cannot name files; empty if it can.
[[nodiscard]] std::string check_key_id(std::string_view text);

// Writes the key into new files, and prints the policy that uses it. Returns the program's exit code.
[[nodiscard]] int make_keys(const KeysCommand& command, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
