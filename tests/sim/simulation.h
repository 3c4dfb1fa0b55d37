#pragma once

#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/time.h"
#include "core/reactor.h"
#include "core/timer.h"

// Code that the simulations share: the seed, random numbers, and sleep in virtual time.
namespace sluice::sim {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

// A random seed for each run of the program, unless SLUICE_SEED sets it. The first call prints it.
inline std::uint64_t seed() {
  static const std::uint64_t chosen = [] {
    const char* given = std::getenv("SLUICE_SEED");
    const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("SLUICE_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return chosen;
}

// SplitMix64 gives the same numbers with every compiler and library.
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(state) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }
  Duration up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

 private:
  std::uint64_t state_;
};

// Bytes that identify their source: patterns of two seeds, or from two positions, soon differ.
inline std::string pattern(std::uint64_t seed, std::size_t size) {
  std::string result(size, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : result) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>('a' + (state >> 60));
  }
  return result;
}

// co_await Sleep(reactor, 3s)
class [[nodiscard]] Sleep : core::Timer {
 public:
  Sleep(core::Reactor& reactor, Duration time) : Timer(&Sleep::over), reactor_(reactor), time_(time) {}
  bool await_ready() const noexcept { return time_ <= Duration::zero(); }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    reactor_.timers().schedule(*this, reactor_.now() + time_);
  }
  void await_resume() const noexcept {}

 private:
  static void over(core::Timer& timer) noexcept { static_cast<Sleep&>(timer).caller_.resume(); }
  core::Reactor& reactor_;
  Duration time_;
  std::coroutine_handle<> caller_;
};

}  // namespace sluice::sim
