#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/histogram.h"
#include "base/reading.h"
#include "http/server.h"

namespace sluice::runtime {

// One core's responses: a histogram for each combination of route, method and status that occurred. A plain value
// that is used on its core; a copy is sent to the core that renders the metrics.
class RequestMetrics {
 public:
  struct Series {
    std::uint16_t route = 0;
    http::Method method{};
    std::uint16_t status = 0;
    bool secure = false;
    std::uint64_t body_bytes = 0;
    std::uint64_t broken = 0;
    Histogram durations;
    std::uint32_t next = 0;  // the next series of the same route, encoded as in `first_`
  };

  void add(const http::Completion& completion);
  void add(const RequestMetrics& other);
  // Removes all routes except those that are true in `routes`, by route id.
  void keep(const std::vector<bool>& routes);
  [[nodiscard]] const std::vector<Series>& series() const { return series_; }

 private:
  Series& find(std::uint16_t route, http::Method method, std::uint16_t status, bool secure);
  Series& add_series(std::uint16_t route, http::Method method, std::uint16_t status, bool secure);

  std::vector<Series> series_;
  std::vector<std::uint32_t> first_;  // by route: the index of its first series plus 1; 0: the route has no series
};

// Builds text in the Prometheus exposition format (version 0.0.4), metric by metric.
class MetricsText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  // `labels`: such as `pool="main"`, already escaped; may be empty.
  void sample(std::string_view name, std::string_view labels, double value);
  void histogram(std::string_view name, const std::string& labels, const Histogram& values);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Adds up the readings of all cores that have the same name and labels. Families are in the order of their first
// reading.
class ReadingSums {
 public:
  void add(Readings readings);
  void render(MetricsText& out) const;
  [[nodiscard]] const Readings& all() const { return sums_; }

 private:
  Readings sums_;
  std::unordered_map<std::string, std::size_t> by_name_;  // by name and labels
};

// Adds the counters of an object that has ended to `kept`. Its other readings are dropped.
void keep_counters(Readings& kept, Readings last);

// http_server_request_duration_seconds and related metrics. `routes`: patterns by route id; id 0 is "no route".
[[nodiscard]] Readings readings_of(const RequestMetrics& metrics, const std::vector<std::string>& routes);

}  // namespace sluice::runtime
