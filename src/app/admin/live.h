#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/reloader.h"
#include "app/worker.h"
#include "base/buffer.h"
#include "base/log_tail.h"
#include "core/core.h"
#include "http/handler.h"
#include "runtime/gatherer.h"

namespace sluice::app {

// GET /live of the admin listener: Server-Sent Events, each with the state of the server as one JSON object, at once
// and then every 2 s. Nothing is gathered while nobody reads.
//
//   {"time":…, "ready":…, "note":…, "bounds":[…], "routes":[[PATH, METHODS]…], "reload":{"time":…, "error":…},
//    "log":[…], "metrics":{NAME:{"kind":…, "samples":[[LABELS, VALUE]…]}…}}
//
// The readings are those of /metrics. The value of a histogram is [SUM, BUCKET…], where a bucket counts the values up
// to its bound and above the bound before. `log` has the lines since the event before.
class AdminLive final : public http::Handler {
 public:
  static constexpr std::size_t most_readers = 8;

  AdminLive(core::Core& core, std::span<Worker* const> workers, runtime::Gatherer& gatherer, const Reloader& reloader,
            const LogTail& log)
      : core_(core), workers_(workers), gatherer_(gatherer), reloader_(reloader), log_(log) {}

  core::Async<http::Response> handle(http::Exchange&) override { return open(); }

 private:
  class Stream;

  core::Task<http::Response> open();
  // One event, or the reason why it cannot be gathered. `next_line`: the number of the first line of the log that it
  // may have; set to that of the next event.
  core::Task<std::expected<Buffer, std::string>> event(std::uint64_t& next_line);
  [[nodiscard]] Worker& worker() const { return *workers_[core_.index()]; }
  void append_state(Buffer& out, const runtime::Readiness& readiness, const LogTail::Lines& log) const;

  core::Core& core_;
  const std::span<Worker* const> workers_;
  runtime::Gatherer& gatherer_;
  const Reloader& reloader_;
  const LogTail& log_;
  std::vector<Stream*> streams_;
};

}  // namespace sluice::app
