#pragma once

#include <cstdint>

#include "base/time.h"

namespace sluice::core {

// Estimates the time since the last reading of the real clock from the processor's cycle counter. This takes a few
// instructions, while a reading of the real clock takes two hundred. To measure its duration, each request needs a
// reading; the real clock is read only once a turn.
//
// read() is exact. since() has the error of the estimated counter rate over the time since the last read(), at most one
// turn. If the counter's rate is not constant, or there is no counter, since() reads the real clock.
class CycleClock {
 public:
  CycleClock();
  // Reads the real clock, and stores the counter's value with it.
  Instant read();
  [[nodiscard]] Instant since() const;

 private:
  // The rate as a fixed-point number, in nanoseconds per 2^20 cycles; 0: not known yet, or there is no counter.
  static constexpr unsigned scale_bits = 20;

  Instant read_at_{};
  std::uint64_t cycles_ = 0;
  std::uint64_t ns_of_cycles_ = 0;
  Instant judged_at_{};  // the rate is measured from here to a later reading
  std::uint64_t judged_cycles_ = 0;
  bool has_counter_ = false;
};

}  // namespace sluice::core
