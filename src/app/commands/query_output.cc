#include "app/commands/query_output.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::app {

QueryOutput::~QueryOutput() {
  discard();
  if (file_ > STDERR_FILENO) ::close(file_);
}

int QueryOutput::open(const std::string& name) {
  if (name.empty()) {
    file_ = STDOUT_FILENO;
    return 0;
  }
  std::error_code error;
  const auto target = std::filesystem::canonical(name, error);  // a symbolic link stays one
  name_ = error ? name : target.string();
  struct stat there{};
  const bool exists = ::stat(name_.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {  // /dev/null, a pipe
    file_ = ::open(name_.c_str(), O_WRONLY | O_CLOEXEC);
    return file_ < 0 ? errno : 0;
  }
  std::string part = fmt::format("{}.{}.part", name_, ::getpid());
  file_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) return errno;
  part_ = std::move(part);
  return exists && ::fchmod(file_, there.st_mode & 07777) != 0 ? errno : 0;
}

int QueryOutput::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // another process has made the pipe non-blocking
      pollfd room{.fd = file_, .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, -1) < 0 && stops_()) return EINTR;
    } else if (errno != EINTR || stops_()) {
      return errno;
    }
  }
  return 0;
}

int QueryOutput::finish() {
  if (::close(std::exchange(file_, -1)) != 0) return errno;  // a full disk, on some network file systems
  if (!part_.empty() && ::rename(part_.c_str(), name_.c_str()) != 0) return errno;
  part_.clear();
  return 0;
}

void QueryOutput::discard() {
  if (!part_.empty()) ::unlink(part_.c_str());
  part_.clear();
}

bool QueryOutput::is_terminal() const { return ::isatty(file_) == 1; }

}  // namespace sluice::app
