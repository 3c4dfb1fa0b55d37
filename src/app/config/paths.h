#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/source.h"

namespace sluice::app::config {

// Resolves the paths of a configuration. A path is relative to the folder of the file in which it stands.
struct Paths {
  const FileNames& files;
  std::vector<Diagnostic>& errors;

  [[nodiscard]] std::filesystem::path folder(Position position) const {
    return std::filesystem::path(files.of(position)).parent_path();
  }
  [[nodiscard]] std::string of(std::string_view path, Position position) const {
    return (folder(position) / std::filesystem::path(path)).string();  // an absolute path is unchanged
  }
  [[nodiscard]] std::string of(const Located<std::string>& path) const { return of(path.value, path.position); }
  void resolve(Located<std::string>& path) const {
    if (!path.value.empty()) path.value = of(path);
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
