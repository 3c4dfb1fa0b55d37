#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice {

// A line for the operator, on standard error. Who asks for errors chooses their rate, so each thread writes at most
// 20 lines a second and then says how many it kept back.
void log_error(std::string_view line);

// Trouble that many meet at the same time: a line when it begins, and one when it is over, not one for each. Shared by
// all threads; costs a load while there is none.
class TroubleLog {
 public:
  using Clock = std::chrono::steady_clock;
  // It is over when `quiet` has passed since it was met the last time, and then somebody has got through.
  static constexpr Clock::duration quiet = std::chrono::seconds(1);

  // `subject` begins the lines: "database main". The last one says `over`, and how often it was met: "7 `times`".
  explicit TroubleLog(std::string subject, std::string over = "answers again", std::string times = "requests failed")
      : subject_(std::move(subject)), over_(std::move(over)), times_(std::move(times)) {}
  TroubleLog(const TroubleLog&) = delete;

  void met(std::string_view what, Clock::time_point now = Clock::now());
  void got_through() {
    if (begun_.load(std::memory_order_relaxed)) [[unlikely]]
      end(Clock::now());
  }
  void end(Clock::time_point now);

 private:
  const std::string subject_;
  const std::string over_;
  const std::string times_;
  std::atomic<bool> begun_{false};
  std::atomic<Clock::rep> last_{0};  // when it was met
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;  // of beginning and ending
  Clock::time_point first_{};
};

}  // namespace sluice
