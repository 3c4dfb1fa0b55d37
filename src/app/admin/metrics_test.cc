#include "runtime/metrics.h"

#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "files/store.h"
#include "gateway/jwt/counters.h"

namespace sluice::runtime {
namespace {

TEST(Metrics, HistogramsAreCumulativeAndLabelled) {
  RequestMetrics one;
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.method = http::Method::get;
  request.route = 1;
  one.add({.exchange = &exchange,
           .method = http::Method::get,
           .peer = {},
           .status = 200,
           .body_bytes = 10,
           .duration = 4ms});
  one.add({.exchange = &exchange,
           .method = http::Method::get,
           .peer = {},
           .status = 200,
           .body_bytes = 5,
           .duration = 80ms});
  one.add({.exchange = &exchange,
           .method = http::Method::get,
           .peer = {},
           .status = 200,
           .body_bytes = 1,
           .duration = 60s,
           .broken = true});
  RequestMetrics two;
  two.add({.exchange = &exchange,
           .method = http::Method::get,
           .peer = {},
           .status = 200,
           .body_bytes = 1,
           .duration = 1ms});
  two.add({.exchange = nullptr, .peer = {}, .status = 431});
  two.add({.exchange = nullptr, .method = http::Method::post, .peer = {}, .status = 414});
  one.add(two);

  ReadingSums sums;
  sums.add(readings_of(one, {"", "/films/{slug}"}));
  MetricsText text;
  sums.render(text);
  const std::string out = text.take();
  const std::string labels =
      R"(http_request_method="GET",http_route="/films/{slug}",http_response_status_code="200",url_scheme="http")";
  EXPECT_NE(out.find("# TYPE http_server_request_duration_seconds histogram\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"0.005\"} 2\n"), out.npos) << out;
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"0.1\"} 3\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"10\"} 3\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"+Inf\"} 4\n"), out.npos);
  EXPECT_NE(out.find("_count{" + labels + "} 4\n"), out.npos);
  EXPECT_NE(out.find("_sum{" + labels + "} 60.085\n"), out.npos) << out;
  EXPECT_NE(out.find("sluice_response_body_bytes_total{" + labels + "} 17\n"), out.npos);
  EXPECT_NE(out.find("broken_total{" + labels + "} 1\n"), out.npos);
  EXPECT_NE(out.find(R"(_count{http_request_method="_OTHER",http_response_status_code="431",url_scheme="http"} 1)"),
            out.npos);
  EXPECT_NE(out.find(R"(_count{http_request_method="POST",http_response_status_code="414",url_scheme="http"} 1)"),
            out.npos);
}

TEST(Metrics, RoutesMethodsAndStatusesAreCountedApart) {
  RequestMetrics metrics;
  http::Exchange exchange;
  http::Request& request = exchange.request;
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::uint16_t route : {7, 0, 65535, 3}) {
      for (const auto method : {http::Method::get, http::Method::put}) {
        for (const int status : {200, 404}) {
          request.route = route;
          metrics.add({.exchange = &exchange, .method = method, .peer = {}, .status = status});
        }
      }
    }
  }
  RequestMetrics sum;
  sum.add(metrics);
  sum.add(metrics);
  EXPECT_EQ(sum.series().size(), 16U);
  std::set<std::tuple<int, http::Method, int>> seen;
  for (const auto& one : sum.series()) {
    EXPECT_EQ(one.durations.count, 6U);
    seen.emplace(one.route, one.method, one.status);
  }
  EXPECT_EQ(seen.size(), 16U);

  sum.keep({true, true, true, true});
  sum.add(metrics);
  for (const auto& one : sum.series()) EXPECT_EQ(one.durations.count, one.route <= 3 ? 9U : 3U);
  EXPECT_EQ(sum.series().size(), 16U);
}

// The sums of two cores with the same readings.
std::string of_two_cores(const Readings& readings) {
  ReadingSums sums;
  sums.add(readings);
  sums.add(readings);
  MetricsText text;
  sums.render(text);
  return text.take();
}

TEST(Metrics, ReadingsOfOneFamilyStandTogether) {
  Readings core{
      gauge("db_client_connection_count", "C", 1, label("state", "idle")),
      gauge("db_client_connection_count", "C", 2, label("state", "used")),
      counter("sluice_lost_total", "L", 3),
      gauge("sluice_age_seconds", "A", 0.25),
  };
  append(core, {gauge("db_client_connection_count", "C", 7, label("state", "idle"))}, label("pool", "c\""));
  append(core, {counter("sluice_lost_total", "L", 4)});
  EXPECT_EQ(of_two_cores(core), R"(# HELP db_client_connection_count C
# TYPE db_client_connection_count gauge
db_client_connection_count{state="idle"} 2
db_client_connection_count{state="used"} 4
db_client_connection_count{pool="c\"",state="idle"} 14
# HELP sluice_lost_total L
# TYPE sluice_lost_total counter
sluice_lost_total 14
# HELP sluice_age_seconds A
# TYPE sluice_age_seconds gauge
sluice_age_seconds 0.5
)");
}

TEST(Metrics, HistogramsOfCoresAreAddedUp) {
  Histogram times;
  times.add(250ms);
  times.add(2s);
  times.add(11s);
  const std::string out = of_two_cores({histogram("a_seconds", "A", times, label("server", "b"))});
  EXPECT_TRUE(out.starts_with(R"(# HELP a_seconds A
# TYPE a_seconds histogram
a_seconds_bucket{server="b",le="0.005"} 0
a_seconds_bucket{server="b",le="0.01"} 0
)")) << out;
  EXPECT_TRUE(out.ends_with(R"(a_seconds_bucket{server="b",le="0.1"} 0
a_seconds_bucket{server="b",le="0.25"} 2
a_seconds_bucket{server="b",le="0.5"} 2
a_seconds_bucket{server="b",le="0.75"} 2
a_seconds_bucket{server="b",le="1"} 2
a_seconds_bucket{server="b",le="2.5"} 4
a_seconds_bucket{server="b",le="5"} 4
a_seconds_bucket{server="b",le="7.5"} 4
a_seconds_bucket{server="b",le="10"} 4
a_seconds_bucket{server="b",le="+Inf"} 6
a_seconds_sum{server="b"} 26.5
a_seconds_count{server="b"} 6
)")) << out;
}

TEST(Metrics, CoresMayHaveReadingsThatOthersHaveNot) {
  ReadingSums sums;
  sums.add({counter("a_total", "A", 1, label("x", "1")), counter("b_total", "B", 2)});
  sums.add({counter("a_total", "A", 3, label("x", "2")), counter("b_total", "B", 4)});
  MetricsText text;
  sums.render(text);
  EXPECT_EQ(text.take(), R"(# HELP a_total A
# TYPE a_total counter
a_total{x="1"} 1
a_total{x="2"} 3
# HELP b_total B
# TYPE b_total counter
b_total 6
)");
}

TEST(Metrics, OfServers) {
  http::Server::Counters counters{.accepted = 10, .refused = 2, .open = 3, .bodies = {}, .tls = {}, .active = {}};
  counters.active[0][static_cast<std::size_t>(http::Method::get)] = 4;
  counters.active[0][static_cast<std::size_t>(http::Method::other)] = 1;
  const std::string out = of_two_cores(counters.readings());
  EXPECT_NE(out.find("# TYPE sluice_connections_open gauge\nsluice_connections_open 6\n"), out.npos) << out;
  EXPECT_NE(out.find("sluice_connections_total 20\n"), out.npos);
  EXPECT_NE(out.find("sluice_connections_refused_total 4\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 8\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"_OTHER\",url_scheme=\"http\"} 2\n"), out.npos);
}

TEST(Metrics, OfTlsWhereThereIsSome) {
  http::Server::Counters counters;
  std::string out = of_two_cores(counters.readings());
  EXPECT_EQ(out.find("https"), out.npos);
  EXPECT_EQ(out.find("tls"), out.npos);

  counters.tls = {.handshakes = 7, .resumed = 2, .failed = 3, .timed_out = 4, .plain_http = 5};
  counters.active[1][static_cast<std::size_t>(http::Method::get)] = 6;
  out = of_two_cores(counters.readings());
  EXPECT_NE(out.find("sluice_tls_handshakes_total{resumed=\"false\"} 10\n"), out.npos) << out;
  EXPECT_NE(out.find("sluice_tls_handshakes_total{resumed=\"true\"} 4\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"failed\"} 6\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"timeout\"} 8\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"plain_http\"} 10\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"https\"} 12\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0\n"), out.npos);
}

TEST(Metrics, OfPolicies) {
  gateway::jwt::Counters counters{.hits = 3, .verifications = 2, .anonymous = 1, .cached_tokens = 4, .cached_bytes = 5};
  counters.refusals[static_cast<std::size_t>(gateway::jwt::Refusal::expired)] = 6;
  const std::string out = of_two_cores(counters.readings());
  for (const char* line :
       {"sluice_jwt_cache_hits_total 6\n", "sluice_jwt_verifications_total 4\n", "sluice_jwt_anonymous_total 2\n",
        "sluice_jwt_cache_tokens 8\n", "sluice_jwt_cache_bytes 10\n",
        "sluice_jwt_refusals_total{reason=\"expired\"} 12\n", "sluice_jwt_refusals_total{reason=\"missing\"} 0\n"}) {
    EXPECT_TRUE(out.contains(line)) << line << out;
  }
}

TEST(Metrics, OfStores) {
  const files::Store::Counters counters{
      .files = 3, .bytes = 700, .too_long = 1, .wrong_type = 2, .too_many = 4, .failed = 5};
  const std::string out = of_two_cores(counters.readings());
  for (const char* line :
       {"sluice_uploads_total 6\n", "sluice_upload_bytes_total 1400\n",
        "sluice_uploads_refused_total{reason=\"length\"} 2\n", "sluice_uploads_refused_total{reason=\"type\"} 4\n",
        "sluice_uploads_refused_total{reason=\"busy\"} 8\n", "sluice_uploads_refused_total{reason=\"disk\"} 10\n"}) {
    EXPECT_TRUE(out.contains(line)) << line << out;
  }
}

}  // namespace
}  // namespace sluice::runtime
