#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::http {

// The time that a client is waited for while it sends a body. It is renewed whenever enough has come: so many bytes a
// second on average, or one. Time in which nobody waits for the client is not counted.
class Patience {
 public:
  Patience(Duration whole, std::uint32_t bytes_per_s)
      : whole_(whole),
        enough_(std::max<std::uint64_t>(
            static_cast<std::uint64_t>(bytes_per_s * std::chrono::duration<double>(whole).count()), 1)) {}

  [[nodiscard]] Duration left() const { return std::max(whole_ - spent_, Duration{}); }
  void spend(Duration waited, std::size_t came) {
    spent_ += waited;
    came_ += came;
    if (came_ < enough_) return;
    spent_ = {};
    came_ = 0;
  }

 private:
  Duration whole_;
  Duration spent_{};
  std::uint64_t enough_;
  std::uint64_t came_ = 0;
};

}  // namespace sluice::http
