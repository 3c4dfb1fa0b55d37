#include "core/descriptor_limit.h"

#include <algorithm>
#include <climits>

#include <sys/resource.h>

namespace sluice::core {

std::uint64_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

int descriptors_for_clients() noexcept {
  constexpr rlim_t reserve = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX) return INT_MAX;
  return static_cast<int>(limit.rlim_cur - std::min(reserve, limit.rlim_cur / 4));
}

}  // namespace sluice::core
