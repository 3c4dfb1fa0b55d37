#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "http/compress/options.h"
#include "http/request.h"

namespace sluice::files {

// The file itself, or the coding of a compressed file beside it.
enum class Coding : std::uint8_t { identity, gzip, brotli, zstd };
inline constexpr std::size_t coding_count = 1 + http::compress::coding_count;

[[nodiscard]] std::string_view name_of(Coding coding);    // as in Content-Encoding; empty for the identity
[[nodiscard]] std::string_view suffix_of(Coding coding);  // of the compressed file's name: ".br"

// The coding that Accept-Encoding prefers. Among equally preferred codings it takes the smallest, and any coding before
// the identity. `sizes` is 0 for codings without a file. If the client accepts none of the available codings, the
// answer is the identity.
[[nodiscard]] Coding choose_coding(std::span<const http::Field> fields,
                                   const std::array<std::uint64_t, coding_count>& sizes);

}  // namespace sluice::files
