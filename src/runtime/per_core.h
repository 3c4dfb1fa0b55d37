#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/reading.h"
#include "base/time.h"
#include "core/task.h"
#include "runtime/metrics.h"

namespace sluice::runtime {

struct Readiness {
  bool is_ready = true;
  std::string text;  // why it is not ready, or a note; may be empty
};

// The counters of one core. The value may be passed to another core.
struct Snapshot {
  RequestMetrics requests;
  Readings readings;
};

// The part of the runtime's user on each core. Created, used and destroyed on the core.
class PerCore {
 public:
  virtual ~PerCore() = default;

  [[nodiscard]] virtual Snapshot snapshot() const = 0;
  // The patterns of routes by id, for the metrics of requests.
  [[nodiscard]] virtual const std::vector<std::string>& route_names() const = 0;
  virtual core::Task<Readiness> find_readiness(Instant deadline) = 0;

  // The stages of the end, in this order. While the core is leaving(), it serves as before, but the server is not
  // ready. drain() stops accepting and tells clients that the server ends; they have `grace`. drained() says whether
  // all have left. finish() is called when they have, or at `by`: it does what comes last, and cuts what has not ended.
  virtual void drain(Duration grace) noexcept = 0;
  [[nodiscard]] virtual bool drained() const = 0;
  virtual core::Task<void> finish(Instant by) = 0;
  [[nodiscard]] bool leaving() const { return stage_ >= Stage::leaving; }
  [[nodiscard]] bool draining() const { return stage_ >= Stage::draining; }
  // Has `call` called, which must not throw, after drain(). Replaces the one before.
  void when_draining(std::function<void()> call) { on_drain_ = std::move(call); }

 private:
  friend class Life;
  enum class Stage : std::uint8_t { serving, leaving, draining };
  Stage stage_ = Stage::serving;
  std::function<void()> on_drain_;
};

}  // namespace sluice::runtime
