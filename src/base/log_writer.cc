#include "base/log_writer.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
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

// Opens the file, pipe or terminal of a descriptor again. Returns -1 if that is not possible.
int open_again(int descriptor, int flags) noexcept {
  char path[32] = "/proc/self/fd/";
  const std::size_t prefix = std::strlen(path);
  std::snprintf(path + prefix, sizeof path - prefix, "%d", descriptor);
  return ::open(path, flags | O_NOCTTY | O_CLOEXEC);
}

// Whether it is a file whose last line a full disk has cut.
bool ends_within_line(int descriptor) noexcept {
  struct stat about{};
  if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0) return false;
  const int file = open_again(descriptor, O_RDONLY);
  if (file < 0) return false;
  char last = '\n';
  const bool is_read = ::pread(file, &last, 1, about.st_size - 1) == 1;
  ::close(file);
  return is_read && last != '\n';
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

std::expected<LogFile, std::string> LogFile::open(std::string path) {
  LogFile file;
  // O_NONBLOCK: does not wait for the reader of a FIFO.
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640);
  if (file.descriptor_ < 0) return std::unexpected(std::generic_category().message(errno));
  file.path_ = std::move(path);
  return file;
}

LogFile::~LogFile() {
  if (is_open()) ::close(descriptor_);
}

class LogWriter::State {
 public:
  State(int descriptor, std::string name, std::size_t capacity)
      : descriptor_(descriptor), name_(std::move(name)), capacity_(capacity), ring_(new char[capacity]) {
    struct stat about{};
    if (::fstat(descriptor, &about) != 0 || S_ISREG(about.st_mode)) {
      way_ = Way::write;
    } else if (S_ISSOCK(about.st_mode)) {
      way_ = Way::send;
      // O_NONBLOCK on the descriptor itself would also apply to the other processes that have it.
    } else if (no_wait_ = open_again(descriptor, O_WRONLY | O_NONBLOCK); no_wait_ >= 0) {
      way_ = Way::write_to_copy;
    }
  }
  State(std::string name, std::size_t capacity)
      : name_(std::move(name)), capacity_(capacity), ring_(new char[capacity]) {}
  State(const State&) = delete;
  ~State() {
    if (no_wait_ >= 0) ::close(no_wait_);
  }

  void write(std::string_view lines) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return drop(lines);
    if (used_ == 0 && !is_torn_) lines.remove_prefix(write_at_once(lines));
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

  void change_file(LogFile file) noexcept {
    const std::lock_guard lock(mutex_);
    std::swap(next_file_, file);
    changed_.notify_all();
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return used_ != 0 || is_ending_ || next_file_.is_open(); });
      // A line that has begun ends in the same file.
      if (next_file_.is_open() && (!is_mid_line_ || is_torn_)) {
        take_next_file(lock);
      } else if (used_ == 0) {
        return;
      } else {
        write_next(lock);
      }
    }
  }

 private:
  static constexpr std::size_t most_at_once = 64 * 1024;
  enum class Way : std::uint8_t { by_thread, write, write_to_copy, send };

  void take_next_file(std::unique_lock<std::mutex>& lock) noexcept {
    LogFile old = std::exchange(file_, std::move(next_file_));
    descriptor_ = file_.descriptor();
    lock.unlock();
    old = LogFile();  // this and the next line may wait for a disk
    const bool is_cut = ends_within_line(descriptor_);
    lock.lock();
    is_mid_line_ = is_torn_ = is_cut;
  }

  void write_next(std::unique_lock<std::mutex>& lock) noexcept {
    // The fragment of a line whose rest was dropped becomes a line, so that the next one is whole.
    const std::string_view next =
        is_torn_ ? "\n" : std::string_view(&ring_[head_], std::min({used_, capacity_ - head_, most_at_once}));
    lock.unlock();
    const ssize_t written = ::write(descriptor_, next.data(), next.size());
    const int failure = written < 0 ? errno : 0;
    if (failure == EAGAIN) {
      pollfd writable{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (failure != EINTR) {
      note_failure(failure);
    }
    lock.lock();
    if (failure == EAGAIN || failure == EINTR) return;
    if (written <= 0) return drop_all();  // the reader has gone, or the disk is full
    is_mid_line_ = next[static_cast<std::size_t>(written) - 1] != '\n';
    if (std::exchange(is_torn_, false)) return;
    consume(static_cast<std::size_t>(written));
    if (unreported_ != 0 && used_ <= capacity_ / 2 && !is_ending_) {
      const std::uint64_t lost = std::exchange(unreported_, 0);
      lock.unlock();
      report(lost);
      lock.lock();
    }
  }

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
    if (written <= 0) return 0;
    is_mid_line_ = text[static_cast<std::size_t>(written) - 1] != '\n';
    return static_cast<std::size_t>(written);
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
  void drop(std::string_view lines) noexcept {
    dropped_ += lines_of(lines);
    unreported_ += lines_of(lines);
  }
  // Drops the lines of the buffer, after a failure.
  void drop_all() noexcept {
    const std::size_t first = std::min(used_, capacity_ - head_);
    dropped_ += lines_of({&ring_[head_], first}) + lines_of({&ring_[0], used_ - first});
    is_torn_ = is_mid_line_;
    consume(used_);
  }
  // `failure`: an errno; 0: the write has succeeded.
  void note_failure(int failure) noexcept {
    try {
      if (failure == 0) return trouble_.got_through();
      trouble_.met(std::generic_category().message(failure));
    } catch (const std::exception&) {
      // The metric still has the number of lines.
    }
  }
  void report(std::uint64_t lost) const noexcept {
    try {
      const char* const why = file_.is_open() ? " was not written fast enough: " : " was not read for a time: ";
      log_error(name_ + why + std::to_string(lost) + " lines were dropped");
    } catch (const std::exception&) {
      // The metric still has the number.
    }
  }

  int descriptor_ = -1;
  LogFile file_;       // that has the descriptor; not open if another owner closes it
  LogFile next_file_;  // to be written to after the current line; not open: none
  const std::string name_;
  TroubleLog trouble_{name_, "is written again", "writes failed"};
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
  bool is_mid_line_ = false;  // the last byte written was not the end of a line
  bool is_torn_ = false;      // and the rest of that line was dropped
};

LogWriter::LogWriter(int descriptor, std::string name, std::size_t capacity)
    : state_(std::make_shared<State>(descriptor, std::move(name), capacity)) {
  std::thread([state = state_] { state->run(); }).detach();
}

LogWriter::LogWriter(std::string name, std::size_t capacity)
    : state_(std::make_shared<State>(std::move(name), capacity)) {
  std::thread([state = state_] { state->run(); }).detach();
}

LogWriter::~LogWriter() { finish(patience_at_end); }

void LogWriter::write(std::string_view lines) noexcept { state_->write(lines); }

void LogWriter::finish(Duration patience) noexcept { state_->finish(patience); }

void LogWriter::change_file(LogFile file) noexcept { state_->change_file(std::move(file)); }

std::uint64_t LogWriter::dropped() const noexcept { return state_->dropped(); }

}  // namespace sluice
