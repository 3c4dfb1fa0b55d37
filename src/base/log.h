#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice {

// Writes a line for the operator to standard error. Clients that provoke errors choose their rate, so each thread
// writes at most 20 lines a second. It then reports the number of suppressed lines.
void log_error(std::string_view line);

class LogTail;
class LogWriter;
// Makes log_error() write through `to`; null: straight to standard error, which may make the caller wait.
void set_error_log(LogWriter* to);
// Has log_error() keep its lines, without their line break, in `tail` too; null: nowhere.
void set_log_tail(LogTail* tail);

// Logs a failure that many requests meet at the same time: one line when it begins and one when it ends, not one per
// request. Shared by all threads; costs one atomic load while there is no failure.
class TroubleLog {
 public:
  using Clock = std::chrono::steady_clock;
  // A success ends the failure if it comes at least `quiet` after the last failed attempt.
  static constexpr Clock::duration quiet = std::chrono::seconds(1);

  // `subject` begins the lines: "database main". The last line contains `over` and the number of failures: "7 `times`".
  explicit TroubleLog(std::string subject, std::string over = "answers again", std::string times = "requests failed")
      : subject_(std::move(subject)), over_(std::move(over)), times_(std::move(times)) {}
  TroubleLog(const TroubleLog&) = delete;

  void met(std::string_view what, Clock::time_point now = Clock::now()) {
    attempt_failed(what, now);
    request_failed();
  }
  // The two parts of met(), for a request that has several attempts: only a request that fails in the end is counted.
  void attempt_failed(std::string_view what, Clock::time_point now = Clock::now());
  void request_failed() { count_.fetch_add(1, std::memory_order_relaxed); }
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
  std::atomic<Clock::rep> last_{0};  // time of the last failure
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;  // guards beginning and ending
  Clock::time_point first_{};
};

}  // namespace sluice
