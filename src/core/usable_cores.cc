#include "core/usable_cores.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <sched.h>

namespace sluice::core {
namespace {

namespace fs = std::filesystem;

// A file that is missing, or holds something else, sets no limit.
std::optional<std::int64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

unsigned cpus_of(std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<unsigned>(std::min<std::int64_t>((quota - 1) / period + 1, 1U << 16));
}

unsigned limit_v2(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  return in >> quota >> period ? cpus_of(quota, period) : 0;  // "max 100000" is no number: no limit
}

unsigned limit_v1(const fs::path& group) {
  const auto quota = read_number(group / "cpu.cfs_quota_us");
  const auto period = read_number(group / "cpu.cfs_period_us");
  return quota && period ? cpus_of(*quota, *period) : 0;
}

unsigned smaller_limit(unsigned a, unsigned b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// Every group on the way up may have a quota. Inside a container the path may be the host's and not be there: then only
// the mount's root is, which is the container's own group.
unsigned smallest_limit(const fs::path& hierarchy, std::string_view group, unsigned (*limit_of)(const fs::path&)) {
  unsigned limit = limit_of(hierarchy);
  fs::path path = hierarchy;
  for (const fs::path& step : fs::path(group).relative_path()) {
    path /= step;
    limit = smaller_limit(limit, limit_of(path));
  }
  return limit;
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == wanted) return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
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
  unsigned limit = 0;
  std::ifstream in(membership);
  // hierarchy-ID ":" controllers ":" path; version 2 is hierarchy 0 and names no controllers.
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      limit = smaller_limit(limit, smallest_limit(root, group, limit_v2));
    } else if (lists(controllers, "cpu")) {
      std::error_code ignored;
      const fs::path joint = root / controllers;
      limit = smaller_limit(limit, smallest_limit(fs::exists(joint, ignored) ? joint : root / "cpu", group, limit_v1));
    }
  }
  return limit;
}

unsigned usable_cores() {
  const auto allowed = static_cast<unsigned>(allowed_cpus().size());
  return std::max(1U, smaller_limit(allowed, cgroup_cpu_limit()));
}

}  // namespace sluice::core
