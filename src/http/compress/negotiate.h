#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "http/compress/options.h"
#include "http/request.h"

namespace sluice::http::compress {

// The name in Content-Encoding: "gzip", "br", "zstd".
[[nodiscard]] std::string_view name_of(Coding coding);

// The content of an Accept-Encoding field (RFC 9110, 12.5.3). Weights are 0 (not acceptable) to 1000.
struct Acceptance {
  std::array<std::uint16_t, coding_count> codings{};  // indexed by Coding
  std::uint16_t identity = 0;
  bool identity_refused = false;  // by "identity;q=0", or by "*;q=0" without an identity
};

// A request without the field gets no coding. By the RFC any coding would be acceptable, but such clients usually
// support none. Items that do not parse are ignored. If a coding occurs twice, the first item counts.
[[nodiscard]] Acceptance parse_accept_encoding(std::span<const Field> fields);

// Returns the coding with the highest weight, and among equal ones the first of `offered`. Returns nothing if the
// client prefers the uncompressed form or accepts none of the offered codings.
[[nodiscard]] std::optional<Coding> choose(const Acceptance& acceptance, std::span<const Coding> offered);

}  // namespace sluice::http::compress
