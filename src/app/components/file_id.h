#pragma once

#include <cstdint>
#include <string>

namespace sluice::app {

// Identifies a file or a folder, also if another one takes its path.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;

  // Zeros if nothing is at the path.
  [[nodiscard]] static FileId of(const std::string& path);
};

}  // namespace sluice::app
