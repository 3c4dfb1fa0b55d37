#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "api/changes/feed.h"
#include "app/changes.h"
#include "app/residents.h"
#include "files/cache.h"
#include "files/store.h"
#include "gateway/jwt/counters.h"
#include "http/compress/body.h"
#include "http/server.h"
#include "sql/database.h"
#include "ws/counters.h"

namespace sluice::app {

// A latency histogram with the bucket bounds that OpenTelemetry advises for http.server.request.duration.
struct Histogram {
  static constexpr std::array<double, 14> bounds_s{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
                                                   0.5,   0.75, 1,     2.5,  5,     7.5, 10};
  std::array<std::uint64_t, bounds_s.size() + 1> buckets{};  // not cumulative; the last one is above all bounds
  std::uint64_t count = 0;
  double sum_s = 0;

  void add(Duration value);
  void add(const Histogram& other);
};

// What one core has answered: a histogram for each route, method and status that occurred. Plain values, used on their
// core; a copy crosses to the core that renders.
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
    std::uint32_t next = 0;  // the next series of its route, as in `first_`
  };

  void add(const http::Completion& completion);
  void add(const RequestMetrics& other);
  [[nodiscard]] const std::vector<Series>& series() const { return series_; }

 private:
  Series& find(std::uint16_t route, http::Method method, std::uint16_t status, bool secure);

  std::vector<Series> series_;
  std::vector<std::uint32_t> first_;  // by route, its first series: the index and 1; 0: none
};

// Text that Prometheus reads (version 0.0.4), built metric by metric.
class MetricsText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  // `labels` as in `pool="main"`, already escaped; empty: none.
  void sample(std::string_view name, std::string_view labels, double value);
  [[nodiscard]] std::string take() { return std::move(text_); }

  [[nodiscard]] static std::string label(std::string_view name, std::string_view value);

 private:
  std::string text_;
};

// The readings of several databases, those of all cores summed.
class DatabaseMetrics {
 public:
  // One core's, by database.
  void add(const std::vector<std::vector<sql::Reading>>& readings);
  // `names`: of the databases.
  void render(const std::vector<std::string>& names, MetricsText& out) const;

 private:
  std::vector<std::vector<sql::Reading>> databases_;
};

// What servers count beside the requests' durations: their connections, and requests that are being answered.
class ServerMetrics {
 public:
  void add(const http::Server::Counters& counters);
  void render(MetricsText& out) const;

 private:
  http::Server::Counters sum_;
};

// The caches of all [[files]].
void render(const files::Cache::Counters& files, MetricsText& out);
// By store, as `names` are.
void render(const std::vector<files::Store::Counters>& stores, const std::vector<std::string>& names, MetricsText& out);
void render(const http::compress::Counters& compression, MetricsText& out);
void render(const ws::Counters& counters, MetricsText& out);
// By policy, as `names` are.
void render(const std::vector<gateway::jwt::Counters>& policies, const std::vector<std::string>& names,
            MetricsText& out);
// By feed, as `paths` are.
void render(const std::vector<api::changes::Counters>& changes, const std::vector<std::string>& paths,
            MetricsText& out);
// `answers`: the caches of all cores, summed; all by resident table, as `names` are.
void render(const std::vector<Residents::Counters>& residents,
            const std::vector<api::resident::Resident::Counters>& answers, const std::vector<std::string>& names,
            MetricsText& out);
// `names`: of the databases.
void render(const std::vector<Changes::Listening>& listening, const std::vector<std::string>& names, MetricsText& out);

// http_server_request_duration_seconds and its companions. `routes` are the patterns by route id; 0 is "no route".
void render(const RequestMetrics& metrics, const std::vector<std::string>& routes, MetricsText& out);

}  // namespace sluice::app
