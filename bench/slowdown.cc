// Preloaded into a program, makes it SLOWDOWN percent slower: each send burns that share of the CPU time that the process
// has taken since the send before. `make bench-check` must notice it.
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace {

double spent() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void burn() {
  static const char* const percent = getenv("SLOWDOWN");
  static const double share = percent != nullptr ? atof(percent) / 100 : 0;
  static double before = spent();
  const double now = spent();
  const double until = now + (now - before) * share;
  while (spent() < until) {
  }
  before = until;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t send(int fd, const void* bytes, std::size_t size, int flags) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, int)>("send");
  burn();
  return real(fd, bytes, size, flags);
}
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const real = next<ssize_t(int, const msghdr*, int)>("sendmsg");
  burn();
  return real(fd, message, flags);
}
extern "C" ssize_t write(int fd, const void* bytes, std::size_t size) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
  burn();
  return real(fd, bytes, size);
}
extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const real = next<ssize_t(int, const iovec*, int)>("writev");
  burn();
  return real(fd, parts, count);
}
