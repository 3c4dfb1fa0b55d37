#pragma once

#include <string>

#include "http/request.h"

// Labels that all request metrics share.
namespace sluice::http {

// All unregistered methods share one label, as in OpenTelemetry, because clients can send any number of them.
[[nodiscard]] std::string method_label(Method method);
[[nodiscard]] std::string scheme_label(bool secure);

}  // namespace sluice::http
