#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/core.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::gateway::limits::for_tests {

// A reactor without sockets. A test sets its clock, which several reactors share, as the cores of a machine do. clock()
// is always current; now() is the time of the reactor's last turn.
class ClockReactor final : public core::Reactor {
 public:
  explicit ClockReactor(const Instant& clock) : Reactor(clock), clock_(clock) {}
  [[nodiscard]] Instant clock() const override { return clock_; }
  [[nodiscard]] std::int64_t wall_clock_ns() const override { return 0; }

  Result<void> bind(core::Handle&, const core::Address&, bool) override { return no(); }
  Result<void> start_listening(core::Handle&, int) override { return no(); }
  Result<bool> accept(core::Handle&, core::Handle&, core::Address*) override { return no(); }
  Result<bool> connect(core::Handle&, const core::Address&) override { return no(); }
  Result<void> connect_result(core::Handle&) override { return no(); }
  Result<core::Address> local_address(const core::Handle&) const override { return no(); }
  void close(core::Handle&) noexcept override {}
  void shutdown_write(core::Handle&) noexcept override {}
  void reset_on_close(core::Handle&) noexcept override {}
  core::Io recv(core::Handle&, char*, std::size_t) override { return {}; }
  core::Io send(core::Handle&, std::span<const iovec>) override { return {}; }
  core::Io send_file(core::Handle&, int, std::uint64_t, std::size_t) override { return {}; }
  void turn(Instant) override {
    begin_turn();
    now_ = clock_;
    timers().advance(now_);
    run_hooks();
  }
  void wake() noexcept override {}

 private:
  static std::unexpected<Error> no() { return fail(Errc::system); }
  void set_quiet(core::Handle&, bool) noexcept override {}

  const Instant& clock_;
};

// Cores that a test steps on its own thread, and the clock that they share.
class Cores {
 public:
  explicit Cores(unsigned count, std::size_t ring_capacity = 256) : mesh_(count, ring_capacity) {
    for (unsigned i = 0; i < count; ++i) {
      cores_.push_back(std::make_unique<core::Core>(mesh_, i, std::make_unique<ClockReactor>(now)));
    }
  }

  [[nodiscard]] core::Core& operator[](unsigned index) { return *cores_[index]; }
  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(cores_.size()); }
  void step(unsigned index) { cores_[index]->step(now); }
  // Steps until all messages have been read.
  void settle() {
    for (unsigned i = 0; i < 12 * size(); ++i) step(i % size());
  }
  void pass(Duration time) {
    now += time;
    settle();
  }

  Instant now{std::chrono::hours(1)};

 private:
  core::Mesh mesh_;
  std::vector<std::unique_ptr<core::Core>> cores_;
};

}  // namespace sluice::gateway::limits::for_tests
