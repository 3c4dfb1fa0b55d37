#pragma once

#include <string>

#include "http/request.h"

// Labels that readings of requests have in common.
namespace sluice::http {

// Methods that nobody has registered could be without number: they share one label, as OpenTelemetry has it.
[[nodiscard]] std::string method_label(Method method);
[[nodiscard]] std::string scheme_label(bool secure);

}  // namespace sluice::http
