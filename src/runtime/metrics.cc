#include "runtime/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "http/readings.h"

namespace sluice::runtime {

RequestMetrics::Series& RequestMetrics::find(std::uint16_t route, http::Method method, std::uint16_t status,
                                             bool secure) {
  for (std::uint32_t next = route < first_.size() ? first_[route] : 0; next != 0;) {
    Series& one = series_[next - 1];
    if (one.status == status && one.method == method && one.secure == secure) return one;
    next = one.next;
  }
  return add_series(route, method, status, secure);
}

// A separate function, because it is rarely called and needs more registers.
[[gnu::noinline]] RequestMetrics::Series& RequestMetrics::add_series(std::uint16_t route, http::Method method,
                                                                     std::uint16_t status, bool secure) {
  if (route >= first_.size()) first_.resize(route + 1U);
  Series fresh{.route = route, .method = method, .status = status, .secure = secure, .durations = {}};
  fresh.next = std::exchange(first_[route], static_cast<std::uint32_t>(series_.size() + 1));
  return series_.emplace_back(fresh);
}

void RequestMetrics::add(const http::Completion& completion) {
  Series& series = find(completion.exchange != nullptr ? completion.exchange->request.route : std::uint16_t{0},
                        completion.method, static_cast<std::uint16_t>(completion.status), completion.secure);
  series.body_bytes += completion.body_bytes;
  series.broken += completion.broken ? 1 : 0;
  series.durations.add(completion.duration);
}

void RequestMetrics::add(const RequestMetrics& other) {
  for (const Series& from : other.series_) {
    Series& to = find(from.route, from.method, from.status, from.secure);
    to.body_bytes += from.body_bytes;
    to.broken += from.broken;
    to.durations.add(from.durations);
  }
}

void RequestMetrics::keep(const std::vector<bool>& routes) {
  std::erase_if(series_, [&](const Series& one) { return one.route >= routes.size() || !routes[one.route]; });
  const RequestMetrics kept = std::exchange(*this, {});
  add(kept);
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

void MetricsText::histogram(std::string_view name, const std::string& labels, const Histogram& values) {
  const std::string buckets = std::string(name) + "_bucket";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < values.buckets.size(); ++i) {
    below += values.buckets[i];
    const std::string bound = i < Histogram::bounds_s.size() ? fmt::format("{}", Histogram::bounds_s[i]) : "+Inf";
    sample(buckets, labels + ",le=\"" + bound + "\"", static_cast<double>(below));
  }
  sample(std::string(name) + "_sum", labels, values.sum_s);
  sample(std::string(name) + "_count", labels, static_cast<double>(values.count));
}

namespace {

std::string_view name_of(Reading::Kind kind) {
  switch (kind) {
    case Reading::Kind::counter:
      return "counter";
    case Reading::Kind::gauge:
      return "gauge";
    case Reading::Kind::histogram:
      return "histogram";
  }
  return {};
}

}  // namespace

void ReadingSums::add(Readings readings) {
  for (Reading& reading : readings) {
    const auto [known, is_new] = by_name_.try_emplace(std::string(reading.name) + '{' + reading.labels, sums_.size());
    if (is_new) {
      sums_.push_back(std::move(reading));
    } else {
      Reading& sum = sums_[known->second];
      sum.value += reading.value;
      if (sum.histogram && reading.histogram) sum.histogram->add(*reading.histogram);
    }
  }
}

void keep_counters(Readings& kept, Readings last) {
  for (Reading& reading : last) {
    if (reading.kind != Reading::Kind::counter) continue;
    const auto same = std::ranges::find_if(
        kept, [&](const Reading& one) { return one.name == reading.name && one.labels == reading.labels; });
    if (same == kept.end()) {
      kept.push_back(std::move(reading));
    } else {
      same->value += reading.value;
    }
  }
}

void ReadingSums::render(MetricsText& out) const {
  // All samples of a family must be adjacent, from all cores.
  std::vector<std::string_view> families;
  for (const Reading& first : sums_) {
    if (std::ranges::find(families, first.name) != families.end()) continue;
    families.push_back(first.name);
    out.family(first.name, name_of(first.kind), first.help);
    for (const Reading& one : sums_) {
      if (one.name != first.name) continue;
      if (one.histogram) {
        out.histogram(one.name, one.labels, *one.histogram);
      } else {
        out.sample(one.name, one.labels, one.value);
      }
    }
  }
}

Readings readings_of(const RequestMetrics& metrics, const std::vector<std::string>& routes) {
  Readings all;
  for (const auto& series : metrics.series()) {
    std::string labels = http::method_label(series.method) + ",";
    if (series.route != 0 && series.route < routes.size()) {
      labels += label("http_route", routes[series.route]) + ",";
    }
    labels +=
        label("http_response_status_code", std::to_string(series.status)) + "," + http::scheme_label(series.secure);
    all.push_back(histogram("http_server_request_duration_seconds",
                            "From the last byte of a request's header to the last byte of its answer.",
                            series.durations, labels));
    all.push_back(counter("sluice_response_body_bytes_total", "Bytes of bodies sent, without framing.",
                          static_cast<double>(series.body_bytes), labels));
    all.push_back(counter("sluice_responses_broken_total", "Answers cut half-way, by us or by the client.",
                          static_cast<double>(series.broken), std::move(labels)));
  }
  return all;
}

}  // namespace sluice::runtime
