#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "http/compress/options.h"
#include "http/request.h"

namespace sluice::files {

// The file as it is, or one of the codings of which a file may lie beside it.
enum class Coding : std::uint8_t { identity, gzip, brotli, zstd };
inline constexpr std::size_t coding_count = 1 + http::compress::coding_count;

[[nodiscard]] std::string_view name_of(Coding coding);    // as Content-Encoding has it; empty for the identity
[[nodiscard]] std::string_view suffix_of(Coding coding);  // what its file's name ends in: ".br"

// What Accept-Encoding wants most; among equals the shortest, and what is coded before what is not. `sizes` is 0 for
// codings that are not there. The identity goes out where a client takes nothing that there is.
[[nodiscard]] Coding choose_coding(std::span<const http::Field> fields,
                                   const std::array<std::uint64_t, coding_count>& sizes);

}  // namespace sluice::files
