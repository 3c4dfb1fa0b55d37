#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/reading.h"
#include "base/time.h"

namespace sluice {

// Writes lines to a descriptor without ever waiting for its reader. Lines that cannot be written at once go into a
// buffer, from which a thread writes them. Lines that do not fit are dropped, counted, and reported by log_error() when
// the reader is back. May be used by all threads. Only a file on a disk is written to by a call that can wait.
class LogWriter {
 public:
  static constexpr std::size_t default_capacity = 1 << 20;

  // `name` is for reports: "standard output". Throws std::system_error if there is no thread.
  LogWriter(int descriptor, std::string name, std::size_t capacity = default_capacity);
  LogWriter(const LogWriter&) = delete;
  // Waits at most 1 s until the buffer is written.
  ~LogWriter();

  // `lines` are whole lines.
  void write(std::string_view lines) noexcept;
  // Waits at most `patience` until everything is written. After that, lines are dropped.
  void finish(Duration patience) noexcept;
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;  // the thread may outlive the writer if it waits for a reader
};

// The outputs of a server that runs. While this exists, log_error() writes through `errors`. At most one at a time.
class Logs {
 public:
  Logs();
  Logs(const Logs&) = delete;
  ~Logs();

  [[nodiscard]] LogWriter& errors() { return errors_; }
  [[nodiscard]] LogWriter& output() { return output_; }
  // For an end without destructors.
  void finish() noexcept;
  [[nodiscard]] Readings readings() const;

 private:
  LogWriter errors_;
  LogWriter output_;
};

}  // namespace sluice
