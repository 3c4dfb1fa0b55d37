// Preloaded into a program, counts its sends and makes each of them execute more instructions: bench/run_check.py --slow.
// SLOWDOWN names a file of two numbers of 64 bits, which both sides map: the sends so far, and the instructions of each.
// Sluice sends by syscall() and sendmsg().
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace {

struct Shared {
  std::uint64_t sends;
  std::uint64_t instructions;
};

volatile Shared* map() {
  const char* const path = getenv("SLOWDOWN");
  const int fd = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) abort();
  void* const mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  return static_cast<volatile Shared*>(mapped);
}

void burn() {
  static volatile Shared* const shared = map();
  shared->sends = shared->sends + 1;
  for (std::uint64_t left = shared->instructions / 2; left != 0; --left) asm volatile("");  // two instructions a time
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
