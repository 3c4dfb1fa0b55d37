#pragma once

#include <cstdio>
#include <string>

#include "base/time.h"

namespace sluice::app {

struct HealthCommand {
  std::string url = "http://127.0.0.1:8081/readyz";
  Duration timeout = 5s;
};

// `sluice health`: sends a GET, for health checks of containers that have no curl. An answer that is not 2xx is written
// to `errors`. Returns the program's exit code.
[[nodiscard]] int check_health(const HealthCommand& command, std::FILE* errors);

}  // namespace sluice::app
