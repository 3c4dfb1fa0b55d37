#include <array>
#include <cstdlib>

#include <benchmark/benchmark.h>

#include "core/arena.h"

namespace sluice::core {
namespace {

// The pattern of a request: 32 small allocations, then one reset().
constexpr std::size_t allocations = 32;
constexpr std::size_t bytes_of(std::size_t index) { return 16 + index * 5 % 80; }

void arena_request(benchmark::State& state) {
  Arena arena;
  for (auto _ : state) {
    for (std::size_t i = 0; i < allocations; ++i) benchmark::DoNotOptimize(arena.allocate(bytes_of(i)));
    arena.reset();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(allocations));
}
BENCHMARK(arena_request);

void malloc_request(benchmark::State& state) {
  std::array<void*, allocations> blocks{};
  for (auto _ : state) {
    for (std::size_t i = 0; i < allocations; ++i) benchmark::DoNotOptimize(blocks[i] = std::malloc(bytes_of(i)));
    for (void* block : blocks) std::free(block);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(allocations));
}
BENCHMARK(malloc_request);

}  // namespace
}  // namespace sluice::core
