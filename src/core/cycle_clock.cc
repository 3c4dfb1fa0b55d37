#include "core/cycle_clock.h"

#include <algorithm>
#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace sluice::core {
namespace {

constexpr Duration shortest_judgement = 10ms;
constexpr Duration longest_trust = 1s;  // maximum time without reading the real clock

Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

#if defined(__x86_64__)
// Whether the counter runs at a constant rate in all states of the processor.
bool counter_is_invariant() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}
std::uint64_t cycle_count() { return __rdtsc(); }
#else
bool counter_is_invariant() { return false; }
std::uint64_t cycle_count() { return 0; }
#endif

}  // namespace

CycleClock::CycleClock() : has_counter_(counter_is_invariant()) {
  read();
  judged_at_ = read_at_;
  judged_cycles_ = cycles_;
}

Instant CycleClock::read() {
  read_at_ = monotonic_now();
  if (!has_counter_) return read_at_;
  cycles_ = cycle_count();
  const Duration passed = read_at_ - judged_at_;
  if (passed >= shortest_judgement) [[unlikely]] {
    const std::uint64_t cycles = cycles_ - judged_cycles_;
    // After the machine has slept or was migrated, the counter is meaningless.
    const bool sane = cycles > 0 && passed < 1h;
    ns_of_cycles_ =
        sane ? static_cast<std::uint64_t>((static_cast<unsigned __int128>(passed.count()) << scale_bits) / cycles) : 0;
    judged_at_ = read_at_;
    judged_cycles_ = cycles_;
  }
  return read_at_;
}

Instant CycleClock::since() const {
  if (ns_of_cycles_ == 0) return monotonic_now();
  const std::uint64_t cycles = cycle_count() - cycles_;
  const auto passed =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(cycles) * ns_of_cycles_) >> scale_bits);
  if (passed > static_cast<std::uint64_t>(longest_trust.count())) [[unlikely]]
    return monotonic_now();
  return read_at_ + Duration(static_cast<std::int64_t>(passed));
}

}  // namespace sluice::core
