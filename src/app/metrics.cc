#include "app/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::app {

void Histogram::add(Duration value) {
  const double seconds = std::chrono::duration<double>(value).count();
  // Most answers are faster than the first bound.
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

RequestMetrics::Series& RequestMetrics::find(std::uint16_t route, http::Method method, std::uint16_t status,
                                             bool is_request) {
  const auto matches = [&](const Series& one) {
    return one.route == route && one.status == status && one.method == method && one.is_request == is_request;
  };
  if (last_ < series_.size() && matches(series_[last_])) [[likely]] return series_[last_];
  const auto found = std::ranges::find_if(series_, matches);
  last_ = static_cast<std::size_t>(found - series_.begin());
  if (found != series_.end()) return *found;
  Series fresh;
  fresh.route = route;
  fresh.method = method;
  fresh.status = status;
  fresh.is_request = is_request;
  series_.push_back(fresh);
  return series_.back();
}

void RequestMetrics::add(const http::Completion& completion) {
  const http::Request* request = completion.request;
  Series& series = find(request != nullptr ? request->route : std::uint16_t{0},
                        request != nullptr ? request->method : http::Method::other,
                        static_cast<std::uint16_t>(completion.status), request != nullptr);
  series.body_bytes += completion.body_bytes;
  series.broken += completion.broken ? 1 : 0;
  series.durations.add(completion.duration);
}

void RequestMetrics::add(const RequestMetrics& other) {
  for (const Series& from : other.series_) {
    Series& to = find(from.route, from.method, from.status, from.is_request);
    to.body_bytes += from.body_bytes;
    to.broken += from.broken;
    to.durations.add(from.durations);
  }
}

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::sample(std::string_view name, std::string_view labels, double value) {
  text_ += name;
  if (!labels.empty()) {
    text_ += '{';
    text_ += labels;
    text_ += '}';
  }
  if (value == std::floor(value) && std::abs(value) < 9e15) {
    text_ += fmt::format(" {}\n", static_cast<std::int64_t>(value));
  } else {
    text_ += fmt::format(" {}\n", value);
  }
}

std::string MetricsText::label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
  return text;
}

void render(const RequestMetrics& metrics, const std::vector<std::string>& routes, MetricsText& out) {
  const auto labels_of = [&](const RequestMetrics::Series& series) {
    std::string labels;
    if (series.is_request) {
      // Methods that nobody has registered could be without number: they share one label, as OpenTelemetry has it.
      const bool known = series.method != http::Method::other;
      labels += MetricsText::label("http_request_method", known ? name_of(series.method) : "_OTHER") + ",";
    }
    if (series.route != 0 && series.route < routes.size()) {
      labels += MetricsText::label("http_route", routes[series.route]) + ",";
    }
    return labels + MetricsText::label("http_response_status_code", std::to_string(series.status));
  };

  constexpr std::string_view duration = "http_server_request_duration_seconds";
  out.family(duration, "histogram", "From the last byte of a request's header to the last byte of its answer.");
  for (const auto& series : metrics.series()) {
    const std::string labels = labels_of(series);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < series.durations.buckets.size(); ++i) {
      below += series.durations.buckets[i];
      const std::string bound = i < Histogram::bounds_s.size() ? fmt::format("{}", Histogram::bounds_s[i]) : "+Inf";
      out.sample(std::string(duration) + "_bucket", labels + ",le=\"" + bound + "\"", static_cast<double>(below));
    }
    out.sample(std::string(duration) + "_sum", labels, series.durations.sum_s);
    out.sample(std::string(duration) + "_count", labels, static_cast<double>(series.durations.count));
  }
  out.family("http_server_response_body_size_bytes_total", "counter", "Bytes of bodies sent, without framing.");
  for (const auto& series : metrics.series()) {
    out.sample("http_server_response_body_size_bytes_total", labels_of(series), static_cast<double>(series.body_bytes));
  }
  out.family("http_server_responses_broken_total", "counter", "Answers cut half-way, by us or by the client.");
  for (const auto& series : metrics.series()) {
    if (series.broken == 0) continue;
    out.sample("http_server_responses_broken_total", labels_of(series), static_cast<double>(series.broken));
  }
}

}  // namespace sluice::app
