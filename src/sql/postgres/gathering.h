#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/time.h"

namespace sluice::sql::postgres {

// Decides how long to let a fast answer accumulate before the next read. The server sends 8 KiB at a time; waking both
// sides for each of these costs more than processing the rows. The beginning of an answer, and an answer that arrives
// slowly, are read without a pause.
class Gathering {
 public:
  // Call it when a connection is leased.
  void begin(Instant now) { *this = Gathering(now); }
  void received(std::size_t bytes) {
    answer_ += bytes;
    bytes_ += bytes;
  }
  // Call it when the socket is drained. A pause of zero means: wait for the socket to become readable.
  [[nodiscard]] Duration pause(Instant now) {
    const Duration took = now - std::exchange(since_, now);
    const auto bytes = static_cast<Duration::rep>(std::exchange(bytes_, 0));
    if (answer_ < beginning_bytes || bytes == 0 || took > longest * bytes / least_bytes) return {};
    return std::clamp<Duration>(took * wanted_bytes / bytes, shortest, longest);
  }

  static constexpr std::size_t beginning_bytes = 1 << 20;
  // A quarter of a unix socket's buffer, because with few cores the wake-up comes late: a server that blocks on a full
  // buffer sleeps until three quarters have been read.
  static constexpr Duration::rep wanted_bytes = 48 << 10;
  static constexpr Duration::rep least_bytes = 16 << 10;  // the minimum that the longest pause must bring
  static constexpr Duration shortest = 50us;
  static constexpr Duration longest = 200us;

  explicit Gathering(Instant now = {}) : since_(now) {}

 private:
  Instant since_;
  std::size_t bytes_ = 0;   // since `since_`
  std::size_t answer_ = 0;  // in total
};

}  // namespace sluice::sql::postgres
