#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

// Copies `text` to `to` and returns the end. Header fields consist of short texts; these are copied with two
// overlapping loads instead of a call.
[[nodiscard]] inline char* copy_short(char* to, std::string_view text) {
  const std::size_t size = text.size();
  const char* const from = text.data();
  struct Sixteen {
    std::uint64_t words[2];
  };
  const auto both_ends = [&]<class Word>(Word) {
    Word first;
    Word last;
    std::memcpy(&first, from, sizeof(Word));
    std::memcpy(&last, from + size - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + size - sizeof(Word), &last, sizeof(Word));
  };
  if (size > 32) {
    std::memcpy(to, from, size);
  } else if (size >= 16) {
    both_ends(Sixteen{});
  } else if (size >= 8) {
    both_ends(std::uint64_t{});
  } else if (size >= 4) {
    both_ends(std::uint32_t{});
  } else if (size != 0) {
    to[0] = from[0];
    to[size / 2] = from[size / 2];
    to[size - 1] = from[size - 1];
  }
  return to + size;
}

}  // namespace sluice
