#pragma once

#include <optional>

#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// Stands in front of a route, whatever the method: lets a request through, and may note on it what it found out, or
// answers it. One core's; it outlives the answers that it gives.
class Policy {
 public:
  virtual ~Policy() = default;
  // Nothing: the request goes on.
  [[nodiscard]] virtual std::optional<Response> check(Request& request) = 0;
};

}  // namespace sluice::http
