#pragma once

#include <string_view>

namespace sluice::files {

// The media type of a file name's extension; text types have charset=utf-8. Without a known extension:
// application/octet-stream.
[[nodiscard]] std::string_view media_type_of(std::string_view name);

}  // namespace sluice::files
