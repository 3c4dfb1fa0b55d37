// Preloaded into a program, makes it SLOWDOWN percent slower: each 64th send burns that share of the CPU time that the
// process has taken since it did so before. `make bench-check` must notice it. Sluice sends by syscall() and sendmsg().
#include <cstdarg>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace {

double spent() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void burn() {
  static unsigned sends = 0;
  if (++sends % 64 != 0) return;  // the clock is a system call
  static const char* const percent = getenv("SLOWDOWN");
  static const double share = percent != nullptr ? atof(percent) / 100 : 0;
  static double before = spent();
  const double now = spent();
  const double until = now + (now - before) * share;
  while (spent() < until) {
  }
  before = until;
}

}  // namespace

extern "C" long syscall(long number, ...) {
  static auto* const real =
      reinterpret_cast<long (*)(long, long, long, long, long, long, long)>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long values[6];
  for (long& value : values) value = va_arg(list, long);
  va_end(list);
  if (number == SYS_sendto) burn();
  return real(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const real = reinterpret_cast<ssize_t (*)(int, const msghdr*, int)>(dlsym(RTLD_NEXT, "sendmsg"));
  burn();
  return real(fd, message, flags);
}
