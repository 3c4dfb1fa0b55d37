#pragma once

#include <cstdio>
#include <cstdlib>

// Checks an invariant of our own code, in every build. Most asserts guard memory: ending the process is better than
// letting it read or write out of bounds. Input from a peer or the environment must never reach an assert; such
// failures are Results.
#define SLUICE_ASSERT(condition) ((condition) ? (void)0 : ::sluice::assertion_failed(#condition, __FILE__, __LINE__))

namespace sluice {

[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice
