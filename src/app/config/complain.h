#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/config/source.h"

namespace sluice::app::config {

// Where the checks put what they find.
struct Complain {
  std::vector<Diagnostic>& errors;

  void operator()(Position position, std::string message, std::string hint = {}) const {
    errors.push_back({position, std::move(message), std::move(hint)});
  }
};

// A default has no place in the file.
inline std::string again(Position first) {
  return first.line == 0 ? "it is the default of another key" : fmt::format("it is in line {} already", first.line);
}

}  // namespace sluice::app::config
