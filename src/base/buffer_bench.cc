#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/buffer.h"

namespace sluice {
namespace {

// A queue of bytes that copies all that remain when the first ones go.
class NaiveBuffer {
 public:
  [[nodiscard]] const char* data() const { return bytes_.data(); }
  void append(std::string_view bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void consume(std::size_t bytes) { bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(bytes)); }

 private:
  std::vector<char> bytes_;
};

// Appends one message and consumes the oldest one. `backlog` others lie between them.
template <class Queue>
void append_and_consume(benchmark::State& state) {
  const std::string message(static_cast<std::size_t>(state.range(0)), 'x');
  Queue queue;
  for (int i = 0; i < state.range(1); ++i) queue.append(message);
  for (auto _ : state) {
    queue.append(message);
    benchmark::DoNotOptimize(queue.data());
    benchmark::ClobberMemory();
    queue.consume(message.size());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(append_and_consume<Buffer>)
    ->ArgNames({"bytes", "backlog"})
    ->ArgsProduct({{64, 512, 4096, 16 * 1024}, {0, 16}});
BENCHMARK(append_and_consume<NaiveBuffer>)
    ->ArgNames({"bytes", "backlog"})
    ->ArgsProduct({{64, 512, 4096, 16 * 1024}, {0, 16}});

// The copy that a ring buffer needs before a message that crosses its end can be read. Buffer is linear and needs none.
void linearise(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<char> ring(size, 'x');
  std::vector<char> whole(size);
  const std::size_t first = size / 2;
  for (auto _ : state) {
    std::memcpy(whole.data(), ring.data() + first, size - first);
    std::memcpy(whole.data() + (size - first), ring.data(), first);
    benchmark::DoNotOptimize(whole.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(linearise)->Arg(64)->Arg(512)->Arg(4096);

// A message in a block of its own.
void new_and_copy(benchmark::State& state) {
  const std::string message(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    const auto copy = std::make_unique_for_overwrite<char[]>(message.size());
    std::memcpy(copy.get(), message.data(), message.size());
    benchmark::DoNotOptimize(copy.get());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(new_and_copy)->Arg(64)->Arg(512)->Arg(4096);

}  // namespace
}  // namespace sluice
