#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/time.h"

namespace sluice::sql::postgres {

// How long an answer that comes fast is left to gather before it is looked for again. The server sends 8 KiB at a time,
// and to be woken for each, on both sides, costs more than what is done with the rows. The beginning of an answer is
// taken as it comes, and so is one that comes slowly.
class Gathering {
 public:
  // Counts from the first request of a lease.
  void begin(Instant now) { *this = Gathering(now); }
  void received(std::size_t bytes) {
    answer_ += bytes;
    bytes_ += bytes;
  }
  // All that there was has been received. None: whatever comes next is worth being woken for.
  [[nodiscard]] Duration pause(Instant now) {
    const Duration took = now - std::exchange(since_, now);
    const auto bytes = static_cast<Duration::rep>(std::exchange(bytes_, 0));
    if (answer_ < beginning_bytes || bytes == 0 || took > longest * bytes / least_bytes) return {};
    return std::clamp<Duration>(took * wanted_bytes / bytes, shortest, longest);
  }

  static constexpr std::size_t beginning_bytes = 1 << 20;
  // A quarter of what a unix socket holds, for the waking comes late where cores are few: a server that has once waited
  // for room sleeps until three quarters are read.
  static constexpr Duration::rep wanted_bytes = 48 << 10;
  static constexpr Duration::rep least_bytes = 16 << 10;  // that the longest pause must bring
  static constexpr Duration shortest = 50us;
  static constexpr Duration longest = 200us;

  explicit Gathering(Instant now = {}) : since_(now) {}

 private:
  Instant since_;
  std::size_t bytes_ = 0;   // since then
  std::size_t answer_ = 0;  // in all
};

}  // namespace sluice::sql::postgres
