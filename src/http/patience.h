#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::http {

// How much longer the server waits for a client that sends a body. Waiting uses it up, and each received byte gives
// some of it back, so it runs out only for a client slower than `bytes_per_s` (with 0: only for a client that sends
// nothing). Only time spent waiting for the client counts.
class Patience {
 public:
  Patience(Duration whole, std::uint32_t bytes_per_s) : whole_(whole), left_(whole), bytes_per_s_(bytes_per_s) {}

  [[nodiscard]] Duration left() const { return std::max(left_, Duration{}); }
  void spend(Duration waited, std::size_t came) {
    left_ -= waited;
    if (bytes_per_s_ == 0) {
      if (came != 0) left_ = whole_;
      return;
    }
    // Capped so that the product does not overflow.
    const auto counted = static_cast<std::int64_t>(std::min<std::size_t>(came, std::size_t{1} << 30));
    left_ = std::min(left_ + Duration(std::chrono::seconds(counted)) / bytes_per_s_, whole_);
  }

 private:
  Duration whole_;
  Duration left_;
  std::uint32_t bytes_per_s_;
};

}  // namespace sluice::http
