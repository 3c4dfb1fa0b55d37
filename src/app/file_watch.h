#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::app {

// Files that a running server reads again when they have changed.
class FileWatch {
 public:
  explicit FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)) { reading(); }

  // Somebody reads them now: called before, so that what changes meanwhile will be seen.
  void reading();
  // Once in a while. True: they are others than those that were read last, with whatever success, and have stood still
  // since the last call, so that nobody meets a file that is still being written.
  [[nodiscard]] bool changed();
  [[nodiscard]] bool empty() const { return paths_.empty(); }

 private:
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t file = 0;
    std::int64_t size = -1;  // -1: it is not there
    std::int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  [[nodiscard]] std::vector<Stamp> look() const;

  const std::vector<std::string> paths_;
  std::vector<Stamp> read_;  // when they were read last
  std::vector<Stamp> seen_;  // at the last look
};

}  // namespace sluice::app
