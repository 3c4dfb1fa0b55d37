// The cost of the limits per request, beside the rest of its processing.
#include <cstdlib>
#include <memory>
#include <optional>

#include <benchmark/benchmark.h>

#include "core/core.h"
#include "core/reactor.h"
#include "gateway/limits/concurrency.h"
#include "gateway/limits/rate_limit.h"
#include "http/exchange.h"
#include "http/filter.h"

namespace sluice::gateway::limits {
namespace {

// Two cores on one thread, and an exchange for both.
struct Two {
  core::Mesh mesh{2};
  core::Core a{mesh, 0, core::make_epoll_reactor()};
  core::Core b{mesh, 1, core::make_epoll_reactor()};
  std::shared_ptr<Shared> shared = std::make_shared<Shared>(2);
  http::Exchange exchange;
  http::Slot slot;

  core::Core& core(unsigned index) { return index == 0 ? a : b; }
  void step() {
    a.step(a.reactor().now());
    b.step(b.reactor().now());
  }
  // The core that owns the client's key.
  unsigned owner() {
    exchange.request.peer = "192.0.2.77";
    return shared->owner_of(KeyMaker(parse_key_parts({}), shared->secret).make(exchange));
  }

  template <class Policy>
  void ask(Policy& policy) {
    slot = {};
    auto asking = policy.before(exchange, slot);
    if (asking.ready()) {
      if (asking.get()) std::abort();
      return;
    }
    core::TaskGroup waiting;
    bool is_done = false;
    waiting.spawn([](core::Task<std::optional<http::Response>> task, bool& done) -> core::Task<void> {
      if (co_await std::move(task)) std::abort();
      done = true;
    }(asking.take_task(), is_done));
    while (!is_done) step();
  }
};

// `of_another`: the client's key belongs to another core.
void rate_limit(benchmark::State& state, bool of_another, Tell tell) {
  Two two;
  RateLimitOptions options;
  options.rate = "1000000/s";
  options.burst = 1'000'000;
  options.tell = tell;
  std::unique_ptr<RateLimitPolicy> policies[2];
  for (unsigned i = 0; i < 2; ++i) {
    core::Core& core = two.core(i);
    policies[i] = std::make_unique<RateLimitPolicy>(options, "limit", two.shared, core.reactor(), core.mesh());
  }
  RateLimitPolicy& policy = *policies[of_another ? 1 - two.owner() : two.owner()];
  int requests = 0;
  for (auto _ : state) {
    two.ask(policy);
    if (tell == Tell::always) {
      http::Response response;
      policy.after(two.exchange, two.slot, response);
      benchmark::DoNotOptimize(response.fields.items().data());
    }
    if (++requests % 1000 == 0) two.step();  // handles due timers and messages
  }
}
// Fewer requests than the burst, so that none is refused.
BENCHMARK_CAPTURE(rate_limit, of_this_core, false, Tell::refused)->Iterations(500'000);
BENCHMARK_CAPTURE(rate_limit, of_another_core, true, Tell::refused)->Iterations(500'000);
BENCHMARK_CAPTURE(rate_limit, of_this_core_told, false, Tell::always)->Iterations(500'000);

void concurrency(benchmark::State& state, bool of_another) {
  Two two;
  ConcurrencyOptions options;
  options.requests = 1000;
  options.per.items = {"client"};
  std::unique_ptr<ConcurrencyPolicy> policies[2];
  for (unsigned i = 0; i < 2; ++i) {
    policies[i] = std::make_unique<ConcurrencyPolicy>(options, two.shared, two.core(i).reactor(), two.core(i).mesh());
  }
  ConcurrencyPolicy& policy = *policies[of_another ? 1 - two.owner() : two.owner()];
  for (auto _ : state) {
    two.ask(policy);
    policy.ended(two.exchange, two.slot, {});
    if (of_another) two.step();
  }
}
BENCHMARK_CAPTURE(concurrency, of_this_core, false);
BENCHMARK_CAPTURE(concurrency, of_another_core, true);

}  // namespace
}  // namespace sluice::gateway::limits
