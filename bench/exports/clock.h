#pragma once

#include <algorithm>
#include <array>
#include <chrono>

namespace exports {

// The time that `work` takes, in nanoseconds.
template <class Work>
double nanoseconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

using Times = std::array<double, 5>;

inline double median(Times times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <class Work>
double median_nanoseconds(Work work) {
  Times times{};
  for (double& time : times) time = nanoseconds(work);
  return median(times);
}

}  // namespace exports
