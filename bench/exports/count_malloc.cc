// A library that counts allocations: preloaded into any program, or linked. At the end of the program it writes the
// number to the file that COUNT_MALLOC names. It is for programs with one thread.
#include "count_malloc.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

std::size_t made = 0;

__attribute__((destructor)) void write_down() {
  const char* const name = std::getenv("COUNT_MALLOC");
  if (name == nullptr) return;
  const std::size_t count = made;
  std::FILE* const file = std::fopen(name, "w");
  if (file == nullptr) return;
  std::fprintf(file, "%zu\n", count);
  std::fclose(file);
}

}  // namespace

extern "C" {

// glibc's own, under the names that no other library replaces.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

std::size_t allocations_made() { return made; }

void* malloc(std::size_t size) noexcept {
  ++made;
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  ++made;
  return __libc_calloc(count, size);
}

void* realloc(void* block, std::size_t size) noexcept {
  ++made;
  return __libc_realloc(block, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++made;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  ++made;
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"
