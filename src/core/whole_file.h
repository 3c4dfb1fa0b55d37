#pragma once

#include <cstddef>
#include <expected>
#include <string>

namespace sluice::core {

// Returns the content of a regular file of at most `most` bytes. The error is a text without the path: "cannot be read:
// ...". Never blocks on another process: a FIFO or a device is refused.
[[nodiscard]] std::expected<std::string, std::string> read_whole_file(const std::string& path, std::size_t most);

}  // namespace sluice::core
