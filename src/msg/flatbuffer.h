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
// Tables may share one vector, and each of them verifies its strings or tables again. This takes up to `most_tables` *
// body.size() / 4 steps, so messages with large bodies need a low limit.
template <class T>
[[nodiscard]] const T* verified(std::span<const std::byte> body, std::uint32_t most_tables = 1'000) {
  SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(body.data()) % 8 == 0);
  if (body.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) return nullptr;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(bytes, body.size(), {.max_depth = deepest_table, .max_tables = most_tables});
  return verifier.VerifyBuffer<T>() ? flatbuffers::GetRoot<T>(bytes) : nullptr;
}

}  // namespace sluice::msg
