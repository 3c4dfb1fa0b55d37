#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::app::config {

// The path of an endpoint as it is written: "/films/{slug}", "/films/{id:int}/tags", "/docs/{rest...}".
struct PathPattern {
  struct Parameter {
    std::string name;
    bool integer = false;
    bool rest = false;
  };

  std::vector<Parameter> parameters;
  // The same for two patterns that match the same paths: parameters without their names.
  std::string shape;
  // Empty, or what is wrong with the character at `wrong_at` (from 1).
  std::string wrong;
  std::string hint;
  std::uint32_t wrong_at = 0;
};

[[nodiscard]] PathPattern parse_path_pattern(std::string_view text);

}  // namespace sluice::app::config
