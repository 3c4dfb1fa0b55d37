#include "app/admin/live.h"

#include <cmath>
#include <expected>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "app/log/log_text.h"
#include "base/histogram.h"
#include "base/json.h"
#include "base/utf8.h"
#include "core/alarm.h"

namespace sluice::app {
namespace {

constexpr Duration event_every = 2s;
// More methods of one route stand for all.
constexpr std::size_t most_listed = 5;

void append_json_string(Buffer& out, std::string_view text) {
  if (is_utf8(text)) {
    out.push_back('"');
    append_json_escaped(out, text);
    out.push_back('"');
  } else {
    std::string escaped;
    append_log_string(escaped, text);
    out.append(escaped);
  }
}

// Calls `append` for each item, and puts commas between them.
void append_list(Buffer& out, const auto& list, auto append) {
  std::string_view comma;
  for (const auto& item : list) {
    out.append(std::exchange(comma, ","));
    append(item);
  }
}

void append_value(Buffer& out, const Reading& reading) {
  if (!reading.histogram) return out.append(std::isfinite(reading.value) ? fmt::format("{}", reading.value) : "null");
  out.append(fmt::format("[{}", reading.histogram->sum_s));
  for (const std::uint64_t count : reading.histogram->buckets) out.append(fmt::format(",{}", count));
  out.push_back(']');
}

std::string_view name_of(Reading::Kind kind) {
  return kind == Reading::Kind::counter ? "counter" : kind == Reading::Kind::gauge ? "gauge" : "histogram";
}

void append_readings(Buffer& out, const Readings& all) {
  std::unordered_map<std::string_view, std::vector<const Reading*>> families;
  for (const Reading& one : all) families[one.name].push_back(&one);
  append_list(out, families, [&](const auto& family) {
    out.append(fmt::format(R"("{}":{{"kind":"{}","samples":[)", family.first, name_of(family.second[0]->kind)));
    append_list(out, family.second, [&](const Reading* one) {
      out.push_back('[');
      append_json_string(out, one->labels);
      out.push_back(',');
      append_value(out, *one);
      out.push_back(']');
    });
    out.append("]}");
  });
}

// The path of each route that is served, as the metrics name it, and its methods; "*" for all.
void append_routes(Buffer& out, const Plan& plan) {
  std::vector<const Shape*> shapes;
  for (const auto& route : plan.routes) {
    for (const Shape& shape : route->shapes()) shapes.push_back(&shape);
  }
  append_list(out, shapes, [&](const Shape* shape) {
    out.push_back('[');
    append_json_string(out, plan.names[shape->id]);
    std::string methods;
    for (const http::Method method : shape->methods) {
      if (method == http::Method::other) continue;
      methods += (methods.empty() ? "" : " ") + std::string(http::name_of(method));
    }
    const bool all = methods.empty() || shape->methods.size() > most_listed;
    out.append(fmt::format(R"(,"{}"])", all ? "*" : methods));
  });
}

}  // namespace

// Ends when the server drains, so that a page which stays open does not delay the end.
class AdminLive::Stream final : public http::BodySource {
 public:
  explicit Stream(AdminLive& live) : live_(live), alarm_(live.core_.reactor()) { live_.streams_.push_back(this); }
  ~Stream() override { std::erase(live_.streams_, this); }
  void end() { alarm_.ring(); }

  // Gathers the first event.
  core::Task<std::expected<void, std::string>> begin() {
    auto event = co_await live_.event(next_line_);
    if (!event) co_return std::unexpected(std::move(event.error()));
    first_ = std::move(*event);
    next_ = live_.core_.reactor().now() + event_every;
    co_return std::expected<void, std::string>();
  }

  core::Async<Result<Progress>> pull(Buffer& out) override {
    if (first_.empty()) return wait(out);
    out.append(first_.view());
    first_.release();
    return Result<Progress>(Progress::more);
  }

 private:
  core::Task<Result<Progress>> wait(Buffer& out) {
    if (!live_.worker().draining()) (void)co_await alarm_.wait(next_);
    if (live_.worker().draining()) co_return Progress::done;
    const auto event = co_await live_.event(next_line_);
    if (!event) co_return Progress::done;  // the reader asks again, and gets the reason
    next_ = live_.core_.reactor().now() + event_every;
    out.append(event->view());
    co_return Progress::more;
  }

  AdminLive& live_;
  core::Alarm alarm_;
  std::uint64_t next_line_ = 0;
  Buffer first_;
  Instant next_{};
};

core::Task<http::Response> AdminLive::open() {
  const auto unavailable = [](std::string_view why) {
    http::Response response = http::problem(503, why);
    response.fields.add("Retry-After", "2");
    return response;
  };
  if (worker().draining()) co_return unavailable("The server is draining.");
  if (streams_.size() >= most_readers) {
    co_return unavailable(fmt::format("{} pages read this already; close one of them.", most_readers));
  }
  worker().when_draining([this] {
    for (Stream* const stream : streams_) stream->end();
  });
  auto stream = std::make_unique<Stream>(*this);
  const auto begun = co_await stream->begin();
  if (!begun) co_return unavailable(begun.error());
  http::Response response;
  response.fields.add("Content-Type", "text/event-stream");
  response.fields.add("Cache-Control", "no-store");
  response.fields.add("X-Content-Type-Options", "nosniff");
  response.body = std::move(stream);
  co_return response;
}

core::Task<std::expected<Buffer, std::string>> AdminLive::event(std::uint64_t& next_line) {
  try {
    const runtime::Readiness readiness = co_await gatherer_.find_readiness();
    const auto sums = co_await gatherer_.gather();
    if (!sums) co_return std::unexpected(sums.error());
    const LogTail::Lines log = log_.from(next_line);
    next_line = log.next;
    Buffer out;
    out.append("data: {");
    append_state(out, readiness, log);
    out.append(R"(,"metrics":{)");
    append_readings(out, sums->all());
    out.append("}}\n\n");
    co_return out;
  } catch (const std::bad_alloc&) {
    co_return std::unexpected(std::string("There is no memory to gather the state of the server."));
  }
}

void AdminLive::append_state(Buffer& out, const runtime::Readiness& readiness, const LogTail::Lines& log) const {
  const auto time_s = static_cast<double>(core_.reactor().wall_clock_ns()) / 1e9;
  out.append(fmt::format(R"("time":{:.3f},"ready":{},"note":)", time_s, readiness.is_ready));
  append_json_string(out, readiness.text);
  out.append(fmt::format(R"(,"bounds":[{}],"routes":[)", fmt::join(Histogram::bounds_s, ",")));
  append_routes(out, worker().plan());
  out.append(R"(],"reload":)");
  if (const auto last = reloader_.last()) {
    out.append(fmt::format(R"({{"time":{},"error":)", last->unix_s));
    append_json_string(out, last->error);
    out.push_back('}');
  } else {
    out.append("null");
  }
  out.append(R"(,"log":[)");
  append_list(out, log.lines, [&](const std::string& line) { append_json_string(out, line); });
  out.push_back(']');
}

}  // namespace sluice::app
