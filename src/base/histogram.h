#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice {

// A latency histogram with the bucket bounds that OpenTelemetry advises for http.server.request.duration.
struct Histogram {
  static constexpr std::array<double, 14> bounds_s{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
                                                   0.5,   0.75, 1,     2.5,  5,     7.5, 10};
  std::array<std::uint64_t, bounds_s.size() + 1> buckets{};  // not cumulative; the last: above all bounds
  std::uint64_t count = 0;
  double sum_s = 0;

  void add(Duration value);
  void add(const Histogram& other);
};

}  // namespace sluice
