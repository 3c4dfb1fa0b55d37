#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/source.h"

namespace sluice::app::config {

// Resolves the paths of a configuration, which are relative to its folder.
struct Paths {
  const std::filesystem::path& folder;
  std::vector<Diagnostic>& errors;

  [[nodiscard]] std::string of(std::string_view path) const {
    return (folder / std::filesystem::path(path)).string();  // an absolute path is unchanged
  }
  void resolve(std::string& path) const {
    if (!path.empty()) path = of(path);
  }
};

// Larger files that the configuration names are refused and are not read to the end.
inline constexpr std::size_t largest_file = 4 << 20;

// Whether a path is the folder or is below it.
[[nodiscard]] inline bool is_within(std::string_view path, std::string_view folder) {
  if (folder.ends_with('/')) folder.remove_suffix(1);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// Without links and "..", also if it does not exist.
[[nodiscard]] inline std::string real_path(const std::string& path) {
  std::error_code error;
  return std::filesystem::weakly_canonical(path, error).string();
}

}  // namespace sluice::app::config
