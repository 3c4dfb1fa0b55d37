// Preloaded into a program, makes each fsync and fdatasync take SYNC_US microseconds longer, as without a disk cache.
#include <cstdlib>

#include <dlfcn.h>
#include <time.h>

namespace {

using Sync = int (*)(int);

int slowly(const char* name, int fd) {
  static const char* const more = getenv("SYNC_US");
  static const long us = more != nullptr ? atol(more) : 0;
  const int result = reinterpret_cast<Sync>(dlsym(RTLD_NEXT, name))(fd);
  timespec left{.tv_sec = us / 1'000'000, .tv_nsec = us % 1'000'000 * 1'000};
  while (nanosleep(&left, &left) != 0) {
  }
  return result;
}

}  // namespace

extern "C" int fsync(int fd) { return slowly("fsync", fd); }
extern "C" int fdatasync(int fd) { return slowly("fdatasync", fd); }
