#include "base/logs.h"

#include <tuple>
#include <utility>

#include <unistd.h>

#include "base/log.h"

namespace sluice {
namespace {

// Enough for half a second of 100,000 requests per second, because the thread may have to wait for a core. Only the
// part that was ever in use takes memory.
constexpr std::size_t file_capacity = 16 << 20;

}  // namespace

Logs::Logs() : errors_(STDERR_FILENO, "standard error"), output_(STDOUT_FILENO, "standard output") {
  set_log_tail(&tail_);
  set_error_log(&errors_);
}

Logs::~Logs() {
  set_error_log(nullptr);
  set_log_tail(nullptr);
}

LogWriter& Logs::access() {
  const std::lock_guard lock(mutex_);
  return access_file_.path.empty() ? output_ : *access_file_.writer;
}

std::expected<Logs::Files, Logs::Failure> Logs::open(const std::string& access, const std::string& errors) {
  const std::lock_guard changing(changing_);
  Files files;
  for (const auto& [log, path, file] :
       {std::tuple(Log::access, &access, &files.access), std::tuple(Log::errors, &errors, &files.errors)}) {
    if (path->empty()) continue;
    auto opened = LogFile::open(*path);
    if (!opened) return std::unexpected(Failure{log, std::move(opened.error())});
    *file = std::move(*opened);
    // The writer is made here, because use() must not fail.
    const std::lock_guard lock(mutex_);
    auto& writer = of(log).writer;
    if (!writer) writer.emplace(log == Log::access ? "the access log" : "the error log", file_capacity);
  }
  return files;
}

void Logs::use(Files files) noexcept {
  const std::lock_guard changing(changing_);
  const std::lock_guard lock(mutex_);
  use(access_file_, std::move(files.access));
  use(errors_file_, std::move(files.errors));
  set_error_log(errors_file_.path.empty() ? &errors_ : &*errors_file_.writer);
}

void Logs::use(FileLog& log, LogFile file) noexcept {
  log.path = file.path();
  if (file.is_open()) log.writer->change_file(std::move(file));
}

void Logs::reopen() {
  const std::lock_guard changing(changing_);  // only holders of this lock change the members
  for (FileLog* const log : {&access_file_, &errors_file_}) {
    if (log->path.empty()) continue;
    if (auto file = LogFile::open(log->path)) {
      log->writer->change_file(std::move(*file));
    } else {
      log_error(log->path + ": " + file.error() + "; the log is written to the file that was open");
    }
  }
}

void Logs::finish() noexcept {
  const std::lock_guard lock(mutex_);
  for (FileLog* const log : {&access_file_, &errors_file_}) {
    if (log->writer) log->writer->finish(LogWriter::patience_at_end);
  }
  output_.finish(LogWriter::patience_at_end);
  errors_.finish(LogWriter::patience_at_end);
}

Readings Logs::readings() const {
  Readings all;
  const auto add = [&](const char* log, const LogWriter& writer) {
    all.push_back(counter("sluice_log_lines_dropped_total",
                          "Log lines dropped because nobody read them, or the disk was full.",
                          static_cast<double>(writer.dropped()), label("log", log)));
  };
  add("stderr", errors_);
  add("stdout", output_);
  const std::lock_guard lock(mutex_);
  if (access_file_.writer) add("access_log", *access_file_.writer);
  if (errors_file_.writer) add("error_log", *errors_file_.writer);
  return all;
}

}  // namespace sluice
