#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "http/message.h"

namespace sluice::files {

// The content codings of which a file may lie beside it; the first is the file as it is.
enum class Coding : std::uint8_t { identity, brotli, zstd, gzip };
inline constexpr std::size_t coding_count = 4;

[[nodiscard]] std::string_view name_of(Coding coding);    // as Content-Encoding has it
[[nodiscard]] std::string_view suffix_of(Coding coding);  // what its file's name ends in: ".br"

// How much a client wants each coding (RFC 9110, 12.5.3): 0 (not at all) to 1000. The file as it is comes last where
// nothing is said of it. Items that do not parse are passed over; of a coding that comes twice, the first counts.
[[nodiscard]] std::array<std::uint16_t, coding_count> coding_qualities(std::span<const http::Field> fields);

// The coding that is wanted most; among equals the shortest, and what is coded before what is not. `sizes` is 0 for
// codings that are not there, but for the identity, which goes out where a client takes nothing that there is.
[[nodiscard]] Coding choose_coding(std::span<const http::Field> fields,
                                   const std::array<std::uint64_t, coding_count>& sizes);

}  // namespace sluice::files
