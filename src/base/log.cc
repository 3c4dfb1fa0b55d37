#include "base/log.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include <unistd.h>

#include "base/log_tail.h"
#include "base/log_writer.h"

namespace sluice {
namespace {

constexpr int lines_a_second = 20;

struct Limiter {
  std::chrono::steady_clock::time_point second{};
  int written = 0;
  int kept_back = 0;
};
thread_local Limiter limiter;

std::atomic<LogWriter*> writer{nullptr};
std::atomic<LogTail*> kept{nullptr};

void write_line(std::string_view text) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char stamp[32];
  const std::size_t stamp_size = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", &parts);
  std::string line(stamp, stamp_size);
  line += "sluice: ";
  // One event is one line, even if a database's message has several. Texts of clients, such as a token's subject, must
  // not control a terminal.
  for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  if (LogTail* const tail = kept.load(std::memory_order_acquire)) tail->add(line);
  line += '\n';
  if (LogWriter* const to = writer.load(std::memory_order_acquire)) return to->write(line);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_error_log(LogWriter* to) { writer.store(to, std::memory_order_release); }

void set_log_tail(LogTail* tail) { kept.store(tail, std::memory_order_release); }

void log_error(std::string_view line) {
  const auto now = std::chrono::steady_clock::now();
  try {
    if (now - limiter.second >= std::chrono::seconds(1)) {
      const int kept_back = std::exchange(limiter, {.second = now}).kept_back;
      if (kept_back != 0) write_line(std::to_string(kept_back) + " more lines like these were kept back");
    }
    if (++limiter.written > lines_a_second) {
      ++limiter.kept_back;
      return;
    }
    write_line(line);
  } catch (const std::bad_alloc&) {
    ++limiter.kept_back;
  }
}

void TroubleLog::attempt_failed(std::string_view what, Clock::time_point now) {
  last_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  if (begun_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (begun_.load(std::memory_order_relaxed)) return;
  first_ = now;
  begun_.store(true, std::memory_order_relaxed);
  log_error(subject_ + ": " + std::string(what) + "; further failures are logged when it recovers");
}

void TroubleLog::end(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point last{Clock::duration(last_.load(std::memory_order_relaxed))};
  if (!begun_.load(std::memory_order_relaxed) || now - last < quiet) return;
  begun_.store(false, std::memory_order_relaxed);
  const auto lasted = std::chrono::duration_cast<std::chrono::milliseconds>(last - first_);
  log_error(subject_ + ": " + over_ + "; " + std::to_string(count_.exchange(0, std::memory_order_relaxed)) + " " +
            times_ + " within " + std::to_string(lasted.count()) + " ms");
}

}  // namespace sluice
