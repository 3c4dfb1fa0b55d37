#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "gateway/jwt/token.h"

namespace sluice::app {

// `sluice token`: signs a token, for development and tests.
struct TokenCommand {
  std::string key;                                   // the path of a PEM private key, or of a secret
  std::optional<gateway::jwt::Algorithm> algorithm;  // nothing: that of the key
  std::string id;                   // "kid"; empty: that of the key set beside the key, if there is one
  std::optional<Duration> expires;  // nothing: an hour
  std::optional<std::string> issuer;
  std::optional<std::string> audience;
  std::optional<std::string> subject;
  std::vector<std::string> claims;  // NAME=JSON or NAME=TEXT; the name is not empty
};

// Prints the token. Returns the program's exit code.
[[nodiscard]] int print_token(const TokenCommand& command, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app
