#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace sluice::fuzz {

// Ends the run with a finding if the condition does not hold.
inline void require(bool condition, const char* what = "",
                    std::source_location where = std::source_location::current()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), where.line(), *what != '\0' ? what : "does not hold");
  std::abort();
}

// The sizes of the pieces that an input is split into; many are short.
class Pieces {
 public:
  explicit Pieces(std::uint8_t seed) : state_(seed * 2654435761u + 1) {}
  std::size_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    return 1 + (state_ >> 24) % ((state_ & 0x10000u) != 0 ? 3 : 40);
  }

 private:
  std::uint32_t state_;
};

}  // namespace sluice::fuzz
