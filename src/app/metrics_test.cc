#include "app/metrics.h"

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

TEST(Metrics, HistogramsAreCumulativeAndLabelled) {
  RequestMetrics one;
  http::Request request;
  request.method = http::Method::get;
  request.route = 1;
  one.add({.request = &request, .peer = {}, .status = 200, .body_bytes = 10, .duration = 4ms});
  one.add({.request = &request, .peer = {}, .status = 200, .body_bytes = 5, .duration = 80ms});
  one.add({.request = &request, .peer = {}, .status = 200, .body_bytes = 1, .duration = 60s, .broken = true});
  RequestMetrics two;
  two.add({.request = &request, .peer = {}, .status = 200, .body_bytes = 1, .duration = 1ms});
  two.add({.request = nullptr, .peer = {}, .status = 431});
  one.add(two);

  MetricsText text;
  render(one, {"", "/films/{slug}"}, text);
  const std::string out = text.take();
  const std::string labels =
      R"(http_request_method="GET",http_route="/films/{slug}",http_response_status_code="200")";
  EXPECT_NE(out.find("# TYPE http_server_request_duration_seconds histogram\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"0.005\"} 2\n"), out.npos) << out;
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"0.1\"} 3\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"10\"} 3\n"), out.npos);
  EXPECT_NE(out.find("_bucket{" + labels + ",le=\"+Inf\"} 4\n"), out.npos);
  EXPECT_NE(out.find("_count{" + labels + "} 4\n"), out.npos);
  EXPECT_NE(out.find("_sum{" + labels + "} 60.085\n"), out.npos) << out;
  EXPECT_NE(out.find("body_size_bytes_total{" + labels + "} 17\n"), out.npos);
  EXPECT_NE(out.find("broken_total{" + labels + "} 1\n"), out.npos);
  EXPECT_NE(out.find(R"(_count{http_response_status_code="431"} 1)"), out.npos);
}

TEST(Metrics, LabelsAreEscaped) {
  EXPECT_EQ(MetricsText::label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
}

}  // namespace
}  // namespace sluice::app
