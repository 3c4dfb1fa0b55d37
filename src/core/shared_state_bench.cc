// Items for the sessions of a server: each finds a session, reads it and changes it. Either each worker has a queue and
// sessions of its own, or all workers share one queue and the sessions, which lie in 64 locked shards.
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>

#include <benchmark/benchmark.h>

namespace sluice::core {
namespace {

constexpr std::uint64_t ids = 10'000;

struct Session {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};
using Sessions = std::unordered_map<std::uint64_t, Session>;

void use(Session& session) {
  session.bytes += 64 + session.messages % 7;
  ++session.messages;
}

// The threads begin at different numbers, so they ask for different sessions at a time.
class Ids {
 public:
  explicit Ids(const benchmark::State& state) : random_(static_cast<std::uint64_t>(state.thread_index()) + 1) {}
  std::uint64_t next() {
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    return (random_ >> 33) % ids;
  }

 private:
  std::uint64_t random_;
};

// Items a second of all threads.
void items_per_core(benchmark::State& state) {
  Sessions sessions;
  for (std::uint64_t id = 0; id < ids; ++id) sessions[id] = {};
  std::deque<std::uint64_t> queue;
  Ids id(state);
  for (auto _ : state) {
    queue.push_back(id.next());
    use(sessions[queue.front()]);
    queue.pop_front();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(items_per_core)->Threads(1)->Threads(2)->Threads(3)->Threads(4)->Threads(8)->UseRealTime();

class SharedLoop {
 public:
  SharedLoop() {
    for (std::uint64_t id = 0; id < ids; ++id) shard(id).sessions[id] = {};
  }
  void push(std::uint64_t id) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(id);
  }
  void take() {
    std::unique_lock lock(mutex_);
    const std::uint64_t id = queue_.front();
    queue_.pop_front();
    lock.unlock();
    Shard& of_id = shard(id);
    const std::scoped_lock shard_lock(of_id.mutex);
    use(of_id.sessions[id]);
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    Sessions sessions;
  };
  Shard& shard(std::uint64_t id) { return shards_[id % shards_.size()]; }

  std::mutex mutex_;
  std::deque<std::uint64_t> queue_;
  std::array<Shard, 64> shards_;
};

void items_in_a_shared_loop(benchmark::State& state) {
  static SharedLoop loop;
  Ids id(state);
  for (auto _ : state) {
    loop.push(id.next());
    loop.take();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(items_in_a_shared_loop)->Threads(1)->Threads(2)->Threads(3)->Threads(4)->Threads(8)->UseRealTime();

}  // namespace
}  // namespace sluice::core
