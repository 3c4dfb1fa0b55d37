#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/config/file_names.h"
#include "app/config/source.h"

namespace sluice::app::config {

// Adds an error to the list. The checks report through this.
struct Complain {
  std::vector<Diagnostic>& errors;

  void operator()(Position position, std::string message, std::string hint = {}) const {
    errors.push_back({position, std::move(message), std::move(hint)});
  }
};

// The hint for a value that is used twice. A default has no position in a file.
inline std::string again(Position first, const FileNames& files) {
  return first.line == 0 ? "it is the default of another key" : fmt::format("it is in {} already", files.line(first));
}

}  // namespace sluice::app::config
