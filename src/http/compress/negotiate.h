#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "http/compress/options.h"
#include "http/request.h"

namespace sluice::http::compress {

// As Content-Encoding has it: "gzip", "br", "zstd".
[[nodiscard]] std::string_view name_of(Coding coding);

// What a client's Accept-Encoding says (RFC 9110, 12.5.3). Qualities are 0 (not at all) to 1000.
struct Acceptance {
  std::array<std::uint16_t, coding_count> codings{};  // by Coding
  std::uint16_t identity = 0;
  bool identity_refused = false;  // by "identity;q=0", or by "*;q=0" without an identity
};

// A request without the field wants no coding of ours, though it would have to take any: it comes from clients that
// know none. Items that do not parse are passed over; of a coding that comes twice, the first counts.
[[nodiscard]] Acceptance parse_accept_encoding(std::span<const Field> fields);

// The coding that the client likes best, and among equals the first of `offered`. Nothing: it goes out as it is,
// because the client prefers that or takes nothing that is offered.
[[nodiscard]] std::optional<Coding> choose(const Acceptance& acceptance, std::span<const Coding> offered);

}  // namespace sluice::http::compress
