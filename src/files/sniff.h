#pragma once

#include <cstddef>
#include <string_view>

// Determines a file's media type from its first bytes. Knows only formats with an unambiguous signature, and no type
// that a browser would execute.
namespace sluice::files {

inline constexpr std::size_t sniffed_bytes = 64;  // bytes that are enough for every signature

// The media type; empty if it is unknown.
[[nodiscard]] std::string_view sniff(std::string_view first_bytes);

// Whether a file with these first bytes may be of this type: its signature matches, or the type has no known signature.
[[nodiscard]] bool may_be(std::string_view media_type, std::string_view first_bytes);

}  // namespace sluice::files
