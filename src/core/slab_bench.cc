#include <array>
#include <memory>
#include <utility>

#include <benchmark/benchmark.h>

#include "core/allocators_for_benches.h"
#include "core/slab.h"

namespace sluice::core {
namespace {

struct Slab {
  static bool found() { return true; }
  static void* allocate(std::size_t bytes) { return slab_allocate(bytes); }
  static void free(void* block, std::size_t bytes) { slab_free(block, bytes); }
};

// Allocates and frees one block, as for a short coroutine.
template <class Allocator>
void one_block(benchmark::State& state) {
  if (!is_found<Allocator>(state)) return;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* block = Allocator::allocate(bytes);
    benchmark::DoNotOptimize(block);
    Allocator::free(block, bytes);
  }
}
BENCHMARK(one_block<Slab>)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(one_block<Malloc>)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
BENCHMARK(one_block<Mimalloc>)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);

void make_shared_and_destroy(benchmark::State& state) {
  for (auto _ : state) {
    const auto pointer = std::make_shared<std::array<char, 64>>();
    benchmark::DoNotOptimize(pointer.get());
  }
}
BENCHMARK(make_shared_and_destroy);

// Replaces random ones of a thousand blocks of mixed sizes, as for the coroutine frames of many connections.
template <class Allocator>
void many_alive(benchmark::State& state) {
  if (!is_found<Allocator>(state)) return;
  struct Block {
    void* at = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Block, 1024> blocks{};
  for (Block& block : blocks) block = {Allocator::allocate(64), 64};
  std::uint32_t random = 1;
  for (auto _ : state) {
    random = random * 1664525 + 1013904223;
    Block& block = blocks[random >> 22];
    Allocator::free(block.at, block.bytes);
    block.bytes = 32 + (random >> 8) % 2000;
    block.at = Allocator::allocate(block.bytes);
    benchmark::DoNotOptimize(block.at);
  }
  for (const Block& block : blocks) Allocator::free(block.at, block.bytes);
}
BENCHMARK(many_alive<Slab>);
BENCHMARK(many_alive<Malloc>);
BENCHMARK(many_alive<Mimalloc>);

}  // namespace
}  // namespace sluice::core
