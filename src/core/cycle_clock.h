#pragma once

#include <cstdint>

#include "base/time.h"

namespace sluice::core {

// The time since the last reading of the real clock, by the processor's cycle counter: a few instructions where the
// clock itself takes two hundred. Each request's duration needs one, and the real clock is read once a turn anyway.
//
// read() is exact; since() is off by what the counter's rate is misjudged in the time since, which is a turn's at most.
// Where the counter does not run at one rate (or there is none) since() reads the real clock.
class CycleClock {
 public:
  CycleClock();
  // The real clock. Keeps the counter's value beside it.
  Instant read();
  [[nodiscard]] Instant since() const;

 private:
  // How the rate is known: fixed point, nanoseconds of 2^20 cycles; 0: not known yet, or no such counter.
  static constexpr unsigned scale_bits = 20;

  Instant read_at_{};
  std::uint64_t cycles_ = 0;
  std::uint64_t ns_of_cycles_ = 0;
  Instant judged_at_{};  // the rate is judged anew between here and a later reading
  std::uint64_t judged_cycles_ = 0;
  bool has_counter_ = false;
};

}  // namespace sluice::core
