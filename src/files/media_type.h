#pragma once

#include <string_view>

namespace sluice::files {

// Returns the media type for a file name's extension; application/octet-stream if the extension is unknown. Text types
// have charset=utf-8.
[[nodiscard]] std::string_view media_type_of(std::string_view name);

}  // namespace sluice::files
