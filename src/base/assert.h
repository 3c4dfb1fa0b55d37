#pragma once

#include <cstdio>
#include <cstdlib>

// An invariant of ours, checked in every build but a fast one (NDEBUG). Nothing that a peer can send, and nothing that
// the environment does, may reach an assert: those are Results.
#ifdef NDEBUG
#define SLUICE_ASSERT(condition) ((void)0)
#else
#define SLUICE_ASSERT(condition) \
  ((condition) ? (void)0 : ::sluice::assertion_failed(#condition, __FILE__, __LINE__))
#endif

namespace sluice {

[[noreturn]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice
