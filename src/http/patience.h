#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::http {

// The time that a client is still waited for while it sends a body. Waiting uses it up, and each byte that comes gives
// some of it back, so that only who is slower than `bytes_per_s` (0: who sends nothing) runs out of it. Time in which
// nobody waits for the client is not counted.
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
    // So many that the product does not overflow.
    const auto counted = static_cast<std::int64_t>(std::min<std::size_t>(came, std::size_t{1} << 30));
    left_ = std::min(left_ + Duration(std::chrono::seconds(counted)) / bytes_per_s_, whole_);
  }

 private:
  Duration whole_;
  Duration left_;
  std::uint32_t bytes_per_s_;
};

}  // namespace sluice::http
