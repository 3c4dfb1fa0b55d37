#include <array>

#include <benchmark/benchmark.h>

#include "core/allocators_for_benches.h"
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

// Blocks of one size, and a reset() after each 32. The arena has room for them, as after its first request.
void arena_blocks(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Arena arena(4 * allocations * (bytes + 16));
  while (state.KeepRunningBatch(allocations)) {
    for (std::size_t i = 0; i < allocations; ++i) benchmark::DoNotOptimize(arena.allocate(bytes));
    arena.reset();
  }
}
BENCHMARK(arena_blocks)->Arg(64)->Arg(256)->Arg(1024);

// The same with a free() for each block.
template <class Allocator>
void allocator_request(benchmark::State& state) {
  if (!is_found<Allocator>(state)) return;
  std::array<void*, allocations> blocks{};
  for (auto _ : state) {
    for (std::size_t i = 0; i < allocations; ++i)
      benchmark::DoNotOptimize(blocks[i] = Allocator::allocate(bytes_of(i)));
    for (std::size_t i = 0; i < allocations; ++i) Allocator::free(blocks[i], bytes_of(i));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(allocations));
}
BENCHMARK(allocator_request<Malloc>);
BENCHMARK(allocator_request<Mimalloc>);

}  // namespace
}  // namespace sluice::core
