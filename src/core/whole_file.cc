#include "core/whole_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::core {
namespace {

struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

std::unexpected<std::string> failed(const char* what, int error) {
  return std::unexpected(what + (": " + std::generic_category().message(error)));
}

}  // namespace

std::expected<std::string, std::string> read_whole_file(const std::string& path, std::size_t most) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (file.fd < 0) return failed("cannot be read", errno);
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return failed("cannot be read", errno);
  if (S_ISDIR(status.st_mode)) return failed("cannot be read", EISDIR);
  if (!S_ISREG(status.st_mode)) return std::unexpected("is not a regular file");
  std::string text;
  char block[16384];
  for (;;) {
    const ssize_t got = ::read(file.fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot be read", errno);
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > most) return std::unexpected("is larger than " + std::to_string(most) + " bytes");
  }
}

}  // namespace sluice::core
