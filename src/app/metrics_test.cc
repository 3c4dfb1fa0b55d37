#include "app/metrics.h"

#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

TEST(Metrics, HistogramsAreCumulativeAndLabelled) {
  RequestMetrics one;
  http::Request request;
  request.method = http::Method::get;
  request.route = 1;
  one.add(
      {.request = &request, .method = http::Method::get, .peer = {}, .status = 200, .body_bytes = 10, .duration = 4ms});
  one.add(
      {.request = &request, .method = http::Method::get, .peer = {}, .status = 200, .body_bytes = 5, .duration = 80ms});
  one.add({.request = &request,
           .method = http::Method::get,
           .peer = {},
           .status = 200,
           .body_bytes = 1,
           .duration = 60s,
           .broken = true});
  RequestMetrics two;
  two.add(
      {.request = &request, .method = http::Method::get, .peer = {}, .status = 200, .body_bytes = 1, .duration = 1ms});
  two.add({.request = nullptr, .peer = {}, .status = 431});
  two.add({.request = nullptr, .method = http::Method::post, .peer = {}, .status = 414});
  one.add(two);

  MetricsText text;
  render(one, {"", "/films/{slug}"}, text);
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
  http::Request request;
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::uint16_t route : {7, 0, 65535, 3}) {
      for (const auto method : {http::Method::get, http::Method::put}) {
        for (const int status : {200, 404}) {
          request.route = route;
          metrics.add({.request = &request, .method = method, .peer = {}, .status = status});
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
}

TEST(Metrics, ServersOfAllCoresAreSummed) {
  http::Server::Counters counters{.accepted = 10, .refused = 2, .open = 3, .tls = {}, .active = {}};
  counters.active[0][static_cast<std::size_t>(http::Method::get)] = 4;
  counters.active[0][static_cast<std::size_t>(http::Method::other)] = 1;
  ServerMetrics servers;
  servers.add(counters);
  servers.add(counters);
  MetricsText text;
  servers.render(text);
  const std::string out = text.take();
  EXPECT_NE(out.find("# TYPE sluice_connections_open gauge\nsluice_connections_open 6\n"), out.npos) << out;
  EXPECT_NE(out.find("sluice_connections_total 20\n"), out.npos);
  EXPECT_NE(out.find("sluice_connections_refused_total 4\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 8\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"_OTHER\",url_scheme=\"http\"} 2\n"), out.npos);
}

TEST(Metrics, OfTlsWhereThereIsSome) {
  http::Server::Counters counters;
  const auto rendered = [&] {
    ServerMetrics servers;
    servers.add(counters);
    servers.add(counters);
    MetricsText text;
    servers.render(text);
    return text.take();
  };
  std::string out = rendered();
  EXPECT_EQ(out.find("https"), out.npos);
  EXPECT_EQ(out.find("tls"), out.npos);

  counters.tls = {.handshakes = 7, .resumed = 2, .failed = 3, .timed_out = 4, .plain_http = 5};
  counters.active[1][static_cast<std::size_t>(http::Method::get)] = 6;
  out = rendered();
  EXPECT_NE(out.find("sluice_tls_handshakes_total{resumed=\"false\"} 10\n"), out.npos) << out;
  EXPECT_NE(out.find("sluice_tls_handshakes_total{resumed=\"true\"} 4\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"failed\"} 6\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"timeout\"} 8\n"), out.npos);
  EXPECT_NE(out.find("sluice_tls_handshakes_failed_total{reason=\"plain_http\"} 10\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"https\"} 12\n"), out.npos);
  EXPECT_NE(out.find("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0\n"), out.npos);
}

TEST(Metrics, DatabasesShareFamilies) {
  using enum sql::Reading::Kind;
  const std::vector<std::vector<sql::Reading>> core = {
      {{"db_client_connection_count", R"(db_client_connection_state="idle")", "C", gauge, 1},
       {"db_client_connection_count", R"(db_client_connection_state="used")", "C", gauge, 2},
       {"sluice_postgres_lost_total", {}, "L", counter, 3}},
      {{"sluice_sqlite_scans_total", {}, "S", counter, 5}},
      {{"db_client_connection_count", R"(db_client_connection_state="idle")", "C", gauge, 7}},
  };
  DatabaseMetrics databases;
  databases.add(core);
  databases.add(core);
  MetricsText text;
  databases.render({"a", "b", "c\""}, text);
  EXPECT_EQ(text.take(), R"(# HELP db_client_connection_count C
# TYPE db_client_connection_count gauge
db_client_connection_count{db_client_connection_pool_name="a",db_client_connection_state="idle"} 2
db_client_connection_count{db_client_connection_pool_name="a",db_client_connection_state="used"} 4
db_client_connection_count{db_client_connection_pool_name="c\"",db_client_connection_state="idle"} 14
# HELP sluice_postgres_lost_total L
# TYPE sluice_postgres_lost_total counter
sluice_postgres_lost_total{database="a"} 6
# HELP sluice_sqlite_scans_total S
# TYPE sluice_sqlite_scans_total counter
sluice_sqlite_scans_total{database="b"} 10
)");
}

TEST(Metrics, OfPolicies) {
  gateway::jwt::Counters core{.hits = 3, .verifications = 2, .anonymous = 1, .cached_tokens = 4, .cached_bytes = 5};
  core.refusals[static_cast<std::size_t>(gateway::jwt::Refusal::expired)] = 6;
  gateway::jwt::Counters all;
  all += core;
  all += core;
  MetricsText text;
  render({all, gateway::jwt::Counters{}}, {"a", "b"}, text);
  const std::string out = text.take();
  for (const char* line :
       {"sluice_jwt_cache_hits_total{policy=\"a\"} 6\n", "sluice_jwt_cache_hits_total{policy=\"b\"} 0\n",
        "sluice_jwt_verifications_total{policy=\"a\"} 4\n", "sluice_jwt_anonymous_total{policy=\"a\"} 2\n",
        "sluice_jwt_cache_tokens{policy=\"a\"} 8\n", "sluice_jwt_cache_bytes{policy=\"a\"} 10\n",
        "sluice_jwt_refusals_total{policy=\"a\",reason=\"expired\"} 12\n",
        "sluice_jwt_refusals_total{policy=\"b\",reason=\"missing\"} 0\n"}) {
    EXPECT_NE(out.find(line), out.npos) << line << out;
  }
}

TEST(Metrics, LabelsAreEscaped) { EXPECT_EQ(MetricsText::label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\""); }

TEST(Metrics, StoresByName) {
  files::Store::Counters all;
  for (int core = 0; core < 2; ++core) {
    all += {.files = 3, .bytes = 700, .too_long = 1, .wrong_type = 2, .too_many = 4, .failed = 5};
  }
  MetricsText text;
  render({all, files::Store::Counters{}}, {"pictures", "b"}, text);
  const std::string rendered = text.take();
  for (const char* line : {"sluice_uploads_total{store=\"pictures\"} 6\n", "sluice_uploads_total{store=\"b\"} 0\n",
                           "sluice_upload_bytes_total{store=\"pictures\"} 1400\n",
                           "sluice_uploads_refused_total{store=\"pictures\",reason=\"length\"} 2\n",
                           "sluice_uploads_refused_total{store=\"pictures\",reason=\"type\"} 4\n",
                           "sluice_uploads_refused_total{store=\"pictures\",reason=\"busy\"} 8\n",
                           "sluice_uploads_refused_total{store=\"pictures\",reason=\"disk\"} 10\n"}) {
    EXPECT_TRUE(rendered.contains(line)) << line << rendered;
  }
}

}  // namespace
}  // namespace sluice::app
