#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/config/source.h"

namespace sluice::app::config {

// Adds an error to the list. The checks report through this.
struct Complain {
  std::vector<Diagnostic>& errors;

  void operator()(Position position, std::string message, std::string hint = {}) const {
    errors.push_back({position, std::move(message), std::move(hint)});
  }
};

// The hint for a value that is used twice. A default has no position in the file.
inline std::string again(Position first) {
  return first.line == 0 ? "it is the default of another key" : fmt::format("it is in line {} already", first.line);
}

}  // namespace sluice::app::config
