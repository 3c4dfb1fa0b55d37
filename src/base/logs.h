#pragma once

#include <expected>
#include <mutex>
#include <optional>
#include <string>

#include "base/log_tail.h"
#include "base/log_writer.h"
#include "base/reading.h"

namespace sluice {

// The logs of a server that runs. While this exists, log_error() writes through it. At most one at a time. May be used
// by all threads.
class Logs {
 public:
  // Each log may have a file. Without one, the access log goes to standard output, and errors go to standard error.
  enum class Log : bool { access, errors };
  struct Files {
    LogFile access;
    LogFile errors;
  };
  struct Failure {
    Log log{};
    std::string text;
  };

  Logs();
  Logs(const Logs&) = delete;
  ~Logs();

  [[nodiscard]] LogWriter& errors() { return errors_; }
  [[nodiscard]] LogWriter& output() { return output_; }
  // The last lines that log_error() has written.
  [[nodiscard]] const LogTail& tail() const { return tail_; }
  // The access log's file, or standard output.
  [[nodiscard]] LogWriter& access();

  // Opens the files for use(). An empty path stands for none.
  [[nodiscard]] std::expected<Files, Failure> open(const std::string& access, const std::string& errors);
  // From now on writes to these files. access() may be another writer afterwards; the earlier one still writes.
  void use(Files files) noexcept;
  // Opens the files that are in use again, by their paths, because they have been moved away. Logs failures, after
  // which the files stay in use.
  void reopen();

  // For an end without destructors.
  void finish() noexcept;
  [[nodiscard]] Readings readings() const;

 private:
  struct FileLog {
    std::string path;  // empty: not in use
    std::optional<LogWriter> writer;
  };
  static void use(FileLog& log, LogFile file) noexcept;
  [[nodiscard]] FileLog& of(Log log) { return log == Log::access ? access_file_ : errors_file_; }

  LogTail tail_;
  LogWriter errors_;
  LogWriter output_;
  std::mutex changing_;       // held while files are opened, so no core waits for it
  mutable std::mutex mutex_;  // guards the members below
  FileLog access_file_;
  FileLog errors_file_;
};

}  // namespace sluice
