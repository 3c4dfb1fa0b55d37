#include "base/log_writer.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

namespace sluice {
namespace {

constexpr Duration patience_at_end = std::chrono::seconds(1);

// A descriptor for the same pipe or terminal whose writes do not wait: O_NONBLOCK on the original would also apply to
// the other processes that have it. Returns -1 if there is no such descriptor.
int without_waiting(int descriptor) noexcept {
  char path[32] = "/proc/self/fd/";
  const std::size_t prefix = std::strlen(path);
  std::snprintf(path + prefix, sizeof path - prefix, "%d", descriptor);
  return ::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// Returns the length of the whole lines at the beginning of `text` that fit into `space`.
std::size_t fitting(std::string_view text, std::size_t space) noexcept {
  if (text.size() <= space) return text.size();
  const std::size_t end = text.substr(0, space).rfind('\n');
  return end == std::string_view::npos ? 0 : end + 1;
}

std::uint64_t lines_of(std::string_view text) noexcept {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

class LogWriter::State {
 public:
  State(int descriptor, std::string name, std::size_t capacity)
      : descriptor_(descriptor), name_(std::move(name)), capacity_(capacity), ring_(new char[capacity]) {
    struct stat about{};
    if (::fstat(descriptor, &about) != 0 || S_ISREG(about.st_mode)) {
      way_ = Way::write;
    } else if (S_ISSOCK(about.st_mode)) {
      way_ = Way::send;
    } else if (no_wait_ = without_waiting(descriptor); no_wait_ >= 0) {
      way_ = Way::write_to_copy;
    }
  }
  State(const State&) = delete;
  ~State() {
    if (no_wait_ >= 0) ::close(no_wait_);
  }

  void write(std::string_view lines) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return drop(lines);
    if (used_ == 0) lines.remove_prefix(write_at_once(lines));
    const std::size_t fits = fitting(lines, capacity_ - used_);
    if (fits < lines.size()) drop(lines.substr(fits));
    if (fits == 0) return;
    append(lines.substr(0, fits));
    changed_.notify_all();
  }

  void finish(Duration patience) noexcept {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [this] { return used_ == 0; });
  }

  std::uint64_t dropped() const noexcept {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return used_ != 0 || is_ending_; });
      if (used_ == 0) return;
      const std::string_view next(&ring_[head_], std::min({used_, capacity_ - head_, most_at_once}));
      lock.unlock();
      const ssize_t written = ::write(descriptor_, next.data(), next.size());
      const int failure = written < 0 ? errno : 0;
      if (failure == EAGAIN) {
        pollfd writable{.fd = descriptor_, .events = POLLOUT, .revents = 0};
        ::poll(&writable, 1, -1);
      }
      lock.lock();
      if (failure == EAGAIN || failure == EINTR) continue;
      if (written <= 0) {  // the reader has gone, or the disk is full
        count_dropped(lines_of(next));
        consume(next.size());
        continue;
      }
      consume(static_cast<std::size_t>(written));
      if (unreported_ != 0 && used_ <= capacity_ / 2 && !is_ending_) {
        const std::uint64_t lost = std::exchange(unreported_, 0);
        lock.unlock();
        report(lost);
        lock.lock();
      }
    }
  }

 private:
  static constexpr std::size_t most_at_once = 64 * 1024;
  enum class Way : std::uint8_t { by_thread, write, write_to_copy, send };

  // Returns how many bytes were written. A failure other than a full pipe is left to the thread.
  std::size_t write_at_once(std::string_view text) noexcept {
    ssize_t written = 0;
    switch (way_) {
      case Way::by_thread:
        return 0;
      case Way::write:
        written = ::write(descriptor_, text.data(), text.size());
        break;
      case Way::write_to_copy:
        written = ::write(no_wait_, text.data(), text.size());
        break;
      case Way::send:
        written = ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    }
    return written < 0 ? 0 : static_cast<std::size_t>(written);
  }

  void append(std::string_view text) noexcept {
    const std::size_t tail = (head_ + used_) % capacity_;
    const std::size_t first = std::min(text.size(), capacity_ - tail);
    std::memcpy(&ring_[tail], text.data(), first);
    std::memcpy(&ring_[0], text.data() + first, text.size() - first);
    used_ += text.size();
  }
  void consume(std::size_t bytes) noexcept {
    used_ -= bytes;
    // An empty ring begins at its start again, so that only as much of it is in memory as was ever in use.
    head_ = used_ == 0 ? 0 : (head_ + bytes) % capacity_;
    if (used_ == 0) changed_.notify_all();
  }
  void drop(std::string_view lines) noexcept { count_dropped(lines_of(lines)); }
  void count_dropped(std::uint64_t lines) noexcept {
    dropped_ += lines;
    unreported_ += lines;
  }
  void report(std::uint64_t lost) const noexcept {
    try {
      log_error(name_ + " was not read for a time: " + std::to_string(lost) + " lines were dropped");
    } catch (const std::exception&) {
      // The metric still has the number.
    }
  }

  const int descriptor_;
  const std::string name_;
  const std::size_t capacity_;
  const std::unique_ptr<char[]> ring_;  // NOLINT: not initialised, so that its pages are not in memory
  int no_wait_ = -1;
  Way way_ = Way::by_thread;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t head_ = 0;
  std::size_t used_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t unreported_ = 0;
  bool is_ending_ = false;
};

LogWriter::LogWriter(int descriptor, std::string name, std::size_t capacity)
    : state_(std::make_shared<State>(descriptor, std::move(name), capacity)) {
  std::thread([state = state_] { state->run(); }).detach();
}

LogWriter::~LogWriter() { finish(patience_at_end); }

void LogWriter::write(std::string_view lines) noexcept { state_->write(lines); }

void LogWriter::finish(Duration patience) noexcept { state_->finish(patience); }

std::uint64_t LogWriter::dropped() const noexcept { return state_->dropped(); }

Logs::Logs() : errors_(STDERR_FILENO, "standard error"), output_(STDOUT_FILENO, "standard output") {
  set_error_log(&errors_);
}

Logs::~Logs() { set_error_log(nullptr); }

void Logs::finish() noexcept {
  output_.finish(patience_at_end);
  errors_.finish(patience_at_end);
}

Readings Logs::readings() const {
  const auto of = [](const char* log, const LogWriter& writer) {
    return counter("sluice_log_lines_dropped_total",
                   "Log lines dropped because nobody read them, or the disk was full.",
                   static_cast<double>(writer.dropped()), label("log", log));
  };
  return {of("stderr", errors_), of("stdout", output_)};
}

}  // namespace sluice
