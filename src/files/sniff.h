#pragma once

#include <cstddef>
#include <string_view>

// What a file's first bytes say that it is. Only of formats that begin with something that nothing else does, and none
// that a browser would run.
namespace sluice::files {

inline constexpr std::size_t sniffed_bytes = 64;  // are enough

// The media type; empty: they say nothing.
[[nodiscard]] std::string_view sniff(std::string_view first_bytes);

// Whether the first bytes may be those of a file of this type: they are, or nothing is known of the type.
[[nodiscard]] bool may_be(std::string_view media_type, std::string_view first_bytes);

}  // namespace sluice::files
