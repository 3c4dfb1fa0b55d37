#pragma once

#include <cstddef>
#include <cstdlib>

#include <benchmark/benchmark.h>
#include <dlfcn.h>

namespace sluice::core {

struct Malloc {
  static bool found() { return true; }
  static void* allocate(std::size_t bytes) { return std::malloc(bytes); }
  static void free(void* block, std::size_t) { std::free(block); }
};

// mimalloc, if it is installed. It is loaded instead of linked, because linked it would replace malloc.
struct Mimalloc {
  static bool found() { return library() != nullptr; }
  static void* allocate(std::size_t bytes) { return allocate_(bytes); }
  static void free(void* block, std::size_t) { free_(block); }

 private:
  static void* library() {
    static void* const opened = ::dlopen("libmimalloc.so", RTLD_NOW | RTLD_LOCAL);
    return opened;
  }
  template <class Function>
  static Function* function(const char* name) {
    return library() == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library(), name));
  }
  static inline void* (*const allocate_)(std::size_t) = function<void*(std::size_t)>("mi_malloc");
  static inline void (*const free_)(void*) = function<void(void*)>("mi_free");
};

// Returns false, and ends the benchmark, if the allocator is not installed.
template <class Allocator>
[[nodiscard]] bool is_found(benchmark::State& state) {
  if (!Allocator::found()) state.SkipWithError("not installed");
  return Allocator::found();
}

}  // namespace sluice::core
