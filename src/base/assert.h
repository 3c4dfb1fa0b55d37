#pragma once

#include <cstdio>
#include <cstdlib>

// An invariant of ours, checked in every build: most of them guard memory, and a process that ends is better than one
// that reads or writes elsewhere. Nothing that a peer can send, and nothing that the environment does, may reach an
// assert: those are Results.
#define SLUICE_ASSERT(condition) ((condition) ? (void)0 : ::sluice::assertion_failed(#condition, __FILE__, __LINE__))

namespace sluice {

[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice
