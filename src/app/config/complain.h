#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/config/source.h"

namespace sluice::app::config {

// Where the checks put what they find.
struct Complain {
  std::vector<Diagnostic>& errors;

  void operator()(Position position, std::string message, std::string hint = {}) const {
    errors.push_back({position, std::move(message), std::move(hint)});
  }
};

}  // namespace sluice::app::config
