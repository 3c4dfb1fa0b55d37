#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "msg/dispatcher.h"
#include "msg/session_for_benches.h"

namespace sluice::msg {
namespace {

// Random ones of `range` handlers: finds the handler and calls it. It only counts.
void dispatch(benchmark::State& state) {
  BenchCore core;
  const SessionRef session = core.begin();
  std::uint64_t handled = 0;
  std::vector<std::uint32_t> ids;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    ids.push_back(static_cast<std::uint32_t>(100 + i * 3));
    core.dispatcher.on(ids.back(), [&handled](Session&, const Frame&) { ++handled; });
  }
  std::vector<std::uint32_t> asked(4096);
  std::mt19937 random(7);
  for (std::uint32_t& id : asked) id = ids[random() % ids.size()];
  std::size_t at = 0;
  for (auto _ : state) {
    const Frame frame{.id = asked[at++ % asked.size()]};
    benchmark::DoNotOptimize(static_cast<bool>(core.dispatcher.dispatch(*session, frame)));
  }
  if (handled != static_cast<std::uint64_t>(state.iterations())) state.SkipWithError("not every message was handled");
}
BENCHMARK(dispatch)->Arg(10)->Arg(100)->Arg(1'000);

}  // namespace
}  // namespace sluice::msg
