#include "base/histogram.h"

#include <chrono>

namespace sluice {

void Histogram::add(Duration value) {
  const double seconds = std::chrono::duration<double>(value).count();
  // A linear search, because most durations are below the first bound.
  std::size_t bucket = 0;
  while (bucket < bounds_s.size() && seconds > bounds_s[bucket]) ++bucket;
  ++buckets[bucket];
  ++count;
  sum_s += seconds;
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  count += other.count;
  sum_s += other.sum_s;
}

}  // namespace sluice
