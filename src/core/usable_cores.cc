#include "core/usable_cores.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace sluice::core {
namespace {

namespace fs = std::filesystem;

// A missing or malformed file sets no limit.
std::optional<std::int64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

// A limit of a cgroup; 0: no limit.
using Limit = std::uint64_t;

Limit cpus_of(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<Limit>(std::min<std::int64_t>((quota - 1) / period + 1, 1U << 16));
}

Limit cpus_v2(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  return in >> quota >> period ? cpus_of(quota, period) : 0;  // "max 100000" is not a number: no limit
}

Limit cpus_v1(const fs::path& group) {
  const auto quota = read_number(group / "cpu.cfs_quota_us");
  const auto period = read_number(group / "cpu.cfs_period_us");
  return quota && period ? cpus_of(*quota, *period) : 0;
}

Limit memory_v2(const fs::path& group) {
  return static_cast<Limit>(std::max<std::int64_t>(read_number(group / "memory.max").value_or(0), 0));
}

// Without a limit the file holds a number larger than any machine's memory.
Limit memory_v1(const fs::path& group) {
  return static_cast<Limit>(std::max<std::int64_t>(read_number(group / "memory.limit_in_bytes").value_or(0), 0));
}

Limit smaller_limit(Limit a, Limit b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// Every group on the way up may have a limit. Inside a container, the path may be the host's and not exist. The only
// existing group is then the mount's root, which is the container's own group.
Limit smallest_limit(const fs::path& hierarchy, std::string_view group, Limit (*limit_of)(const fs::path&)) {
  Limit limit = limit_of(hierarchy);
  fs::path path = hierarchy;
  for (const fs::path& step : fs::path(group).relative_path()) {
    path /= step;
    limit = smaller_limit(limit, limit_of(path));
  }
  return limit;
}

bool has_controller(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == wanted) return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

// The smallest limit of the process's groups, from cgroup version 2 and from the controller of version 1.
Limit group_limit(const fs::path& root, const fs::path& membership, std::string_view controller,
                  Limit (*of_v2)(const fs::path&), Limit (*of_v1)(const fs::path&)) {
  Limit limit = 0;
  std::ifstream in(membership);
  // hierarchy-ID ":" controllers ":" path; version 2 is hierarchy 0 and names no controllers.
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      limit = smaller_limit(limit, smallest_limit(root, group, of_v2));
    } else if (has_controller(controllers, controller)) {
      std::error_code ignored;
      const fs::path joint = root / controllers;
      const fs::path hierarchy = fs::exists(joint, ignored) ? joint : root / controller;
      limit = smaller_limit(limit, smallest_limit(hierarchy, group, of_v1));
    }
  }
  return limit;
}

}  // namespace

std::vector<unsigned> allowed_cpus() {
  std::vector<unsigned> cpus;
  for (unsigned bits = 1024; bits <= 1U << 18; bits *= 2) {
    cpu_set_t* const set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool done = sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !done && errno == EINVAL;
    for (unsigned cpu = 0; done && cpu < bits; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (!too_small) break;
  }
  return cpus;
}

unsigned cgroup_cpu_limit(const fs::path& root, const fs::path& membership) {
  return static_cast<unsigned>(group_limit(root, membership, "cpu", cpus_v2, cpus_v1));
}

unsigned usable_cores() {
  const auto allowed = static_cast<unsigned>(allowed_cpus().size());
  return std::max(1U, static_cast<unsigned>(smaller_limit(allowed, cgroup_cpu_limit())));
}

std::uint64_t cgroup_memory_limit(const fs::path& root, const fs::path& membership) {
  return group_limit(root, membership, "memory", memory_v2, memory_v1);
}

std::uint64_t usable_memory() {
  Limit limit = cgroup_memory_limit();
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
    limit = smaller_limit(limit, addresses.rlim_cur);
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? smaller_limit(limit, static_cast<Limit>(pages) * static_cast<Limit>(page_bytes))
                                     : limit;
}

}  // namespace sluice::core
