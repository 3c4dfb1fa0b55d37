#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/declare.h"

namespace sluice::app::config {

// The names of the files of a configuration, by Position::file.
struct FileNames {
  std::vector<std::string> names;

  [[nodiscard]] const std::string& of(Position position) const { return names.at(position.file); }
  // "line 12", or "line 12 of sluice.toml" if there are several files.
  [[nodiscard]] std::string line(Position position) const {
    return names.size() > 1 ? fmt::format("line {} of {}", position.line, of(position))
                            : fmt::format("line {}", position.line);
  }
  // "sluice.toml:12:1".
  [[nodiscard]] std::string place(Position position) const {
    return fmt::format("{}:{}:{}", of(position), position.line, position.column);
  }
};

}  // namespace sluice::app::config
