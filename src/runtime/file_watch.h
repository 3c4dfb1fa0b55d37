#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::runtime {

// Files that a running server reads again when they have changed.
class FileWatch {
 public:
  explicit FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)) { reading(); }

  // To be called just before the files are read, so that later changes are noticed.
  void reading();
  // To be called regularly. Returns true if the files have changed since reading() and not since the previous call of
  // changed(), so that a file is not read while it is still being written.
  [[nodiscard]] bool changed();
  [[nodiscard]] bool empty() const { return paths_.empty(); }

 private:
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t file = 0;
    std::int64_t size = -1;  // -1: the file does not exist
    std::int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  [[nodiscard]] std::vector<Stamp> look() const;

  const std::vector<std::string> paths_;
  std::vector<Stamp> read_;  // at the last reading()
  std::vector<Stamp> seen_;  // at the last changed()
};

}  // namespace sluice::runtime
