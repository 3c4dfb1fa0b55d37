#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <flatbuffers/flatbuffers.h>

#include "base/assert.h"

namespace sluice::msg {

inline constexpr std::uint32_t deepest_table = 16;  // the root is 1

// Verifies that `body` holds a T, a table that flatc generated, and returns it as a view of `body`. Returns nullptr if
// any offset, size or alignment in it is wrong, a required field is missing, or tables are nested deeper than
// deepest_table or are more than `most_tables`. Every field can be read safely then, but the text of a string may
// not be UTF-8. `body` is aligned to 8 bytes, as a FrameDecoder returns it.
//
// A malicious peer can let all tables share one vector of strings, which each of them verifies again, in up to
// `most_tables` * body.size() / 4 steps: about 5 s for 1,000 tables and 16 MiB, 0.02 s for 64 KiB. Where a schema has
// vectors of strings in tables that repeat, the limit of the body or `most_tables` must be low.
template <class T>
[[nodiscard]] const T* verified(std::span<const std::byte> body, std::uint32_t most_tables = 1'000) {
  SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(body.data()) % 8 == 0);
  if (body.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) return nullptr;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(bytes, body.size(), {.max_depth = deepest_table, .max_tables = most_tables});
  return verifier.VerifyBuffer<T>() ? flatbuffers::GetRoot<T>(bytes) : nullptr;
}

}  // namespace sluice::msg
