// A message's way through the framework, without sockets: the client encodes a request, the bytes are decoded, the
// dispatcher calls the handler, and its answer is encoded into the outbox, which is emptied at the end of the turn.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "base/buffer.h"
#include "msg/frame.h"
#include "msg/session_for_benches.h"

namespace {

// Blocks that this thread has got from malloc and its relatives, and so from operator new too. They are replaced in the
// whole program.
constinit thread_local std::uint64_t allocations = 0;

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t items, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t items, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(items, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}

namespace sluice::msg {
namespace {

constexpr int frames = 16;  // in one turn

struct Pipeline {
  Pipeline() {
    core.dispatcher.on(7, [](Session& to, const Frame& frame) { to.reply(frame, 7, frame.body); });
  }
  // Returns false if a frame was not answered.
  [[nodiscard]] bool turn(const Frame& request) {
    for (int i = 0; i < frames; ++i) append_frame(input, request);
    auto& served = static_cast<BenchSession&>(*session);
    bool all = true;
    while (const auto frame = *decoder.next(input)) all &= served.handle(*frame);
    all &= session->queued() == frames * (longest_header_size + request.body.size());
    core.end_turn();
    return all;
  }
  BenchCore core;
  SessionRef session = core.begin();
  Buffer input;
  FrameDecoder decoder{largest_body};
};

void frame_pipeline(benchmark::State& state) {
  const std::string body(static_cast<std::size_t>(state.range(0)), 'x');
  const Frame request{.id = 7, .flags = correlated_flag, .correlation = 1, .body = bytes_of(body)};
  Pipeline pipeline;
  bool all = pipeline.turn(request);  // the buffers grow
  const std::uint64_t before = allocations;
  std::uint64_t messages = 0;
  while (state.KeepRunningBatch(frames)) {
    all &= pipeline.turn(request);
    messages += frames;
  }
  const std::uint64_t allocated = allocations - before;
  state.counters["allocations_per_message"] = static_cast<double>(allocated) / static_cast<double>(messages);
  state.SetItemsProcessed(state.iterations());
  if (!all) state.SkipWithError("a message was not answered");
  if (allocated != 0) state.SkipWithError("a warm turn must not allocate");
}
BENCHMARK(frame_pipeline)->Arg(64)->Arg(512)->Arg(4096);

// Shows that the count above counts: an empty buffer that grows is one block.
void allocations_are_counted(benchmark::State& state) {
  const std::uint64_t before = allocations;
  for (auto _ : state) {
    Buffer buffer(64);
    benchmark::DoNotOptimize(buffer.data());
  }
  if (allocations - before < static_cast<std::uint64_t>(state.iterations()))
    state.SkipWithError("allocations are not counted");
}
BENCHMARK(allocations_are_counted);

}  // namespace
}  // namespace sluice::msg
