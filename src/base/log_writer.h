#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace sluice {

// An open file that lines are appended to. The destructor closes it.
class LogFile {
 public:
  // Creates the file if it does not exist, with the mode 0640. The error says why it cannot be opened.
  [[nodiscard]] static std::expected<LogFile, std::string> open(std::string path);
  LogFile() = default;  // not open
  LogFile(LogFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  LogFile& operator=(LogFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~LogFile();

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Writes lines to a descriptor without ever waiting for its reader. Lines that cannot be written at once go into a
// buffer, from which a thread writes them. Lines that do not fit are dropped, counted, and reported by log_error() when
// the reader is back. Lines that cannot be written, for example because a disk is full, are dropped and counted too.
// May be used by all threads. Only a descriptor that turns out to be a file on a disk is written to by a call that can
// wait; a LogFile is written to by the thread alone.
class LogWriter {
 public:
  static constexpr std::size_t default_capacity = 1 << 20;
  static constexpr Duration patience_at_end = std::chrono::seconds(1);

  // `name` is for reports: "standard output". Throws std::system_error if there is no thread.
  LogWriter(int descriptor, std::string name, std::size_t capacity = default_capacity);
  // Writes to a file, which change_file() sets before the first line.
  explicit LogWriter(std::string name, std::size_t capacity = default_capacity);
  LogWriter(const LogWriter&) = delete;
  // Waits at most 1 s until the buffer is written.
  ~LogWriter();

  // `lines` are whole lines.
  void write(std::string_view lines) noexcept;
  // Writes to this file from now on, after the line that is being written. Precondition: the writer writes to a file.
  void change_file(LogFile file) noexcept;
  // Waits at most `patience` until everything is written. After that, lines are dropped.
  void finish(Duration patience) noexcept;
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;  // the thread may outlive the writer if it waits for a reader
};

}  // namespace sluice
