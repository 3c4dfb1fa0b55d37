// State that belongs to one core, beside state that all cores share: each thread counts 10,000 keys.
#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <benchmark/benchmark.h>

namespace sluice::core {
namespace {

constexpr std::uint64_t keys = 10'000;
using Counters = std::unordered_map<std::uint64_t, std::uint64_t>;

Counters zeros() {
  Counters counters;
  for (std::uint64_t key = 0; key < keys; ++key) counters[key] = 0;
  return counters;
}

// The threads begin at different numbers, so they count different keys at a time.
class Keys {
 public:
  explicit Keys(const benchmark::State& state) : random_(static_cast<std::uint64_t>(state.thread_index()) + 1) {}
  std::uint64_t next() {
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    return (random_ >> 33) % keys;
  }

 private:
  std::uint64_t random_;
};

// Both report the time of one count in one thread: the rate of all threads is in items_per_second.
void counters_per_core(benchmark::State& state) {
  Counters counters = zeros();
  Keys next(state);
  for (auto _ : state) benchmark::DoNotOptimize(++counters[next.next()]);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(counters_per_core)->Threads(1)->Threads(2)->UseRealTime();

class ShardedCounters {
 public:
  ShardedCounters() {
    for (std::uint64_t key = 0; key < keys; ++key) shard(key).counters[key] = 0;
  }
  std::uint64_t count(std::uint64_t key) {
    Shard& of_key = shard(key);
    const std::scoped_lock lock(of_key.mutex);
    return ++of_key.counters[key];
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    Counters counters;
  };
  Shard& shard(std::uint64_t key) { return shards_[key % shards_.size()]; }
  std::array<Shard, 64> shards_;
};

void counters_in_64_locked_shards(benchmark::State& state) {
  static ShardedCounters counters;
  Keys next(state);
  for (auto _ : state) benchmark::DoNotOptimize(counters.count(next.next()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(counters_in_64_locked_shards)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace sluice::core
