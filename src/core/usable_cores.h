#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice::core {

// The CPUs that this process may run on, in order.
[[nodiscard]] std::vector<unsigned> allowed_cpus();

// The CPU time limit of the process's cgroup and those above it, in CPUs, rounded up; 0 if there is no limit. Reads v2
// (cpu.max) and v1 (cpu.cfs_quota_us) under `root`, at the paths that `membership` (the process's /proc/self/cgroup)
// gives.
[[nodiscard]] unsigned cgroup_cpu_limit(const std::filesystem::path& root = "/sys/fs/cgroup",
                                        const std::filesystem::path& membership = "/proc/self/cgroup");

// The number of threads worth running: the smaller of the allowed CPUs and the cgroup's limit, at least 1.
[[nodiscard]] unsigned usable_cores();

// The memory limit of the process's cgroup and those above it, in bytes; 0 if there is no limit. Reads v2 (memory.max)
// and v1 (memory.limit_in_bytes) as above.
[[nodiscard]] std::uint64_t cgroup_memory_limit(const std::filesystem::path& root = "/sys/fs/cgroup",
                                                const std::filesystem::path& membership = "/proc/self/cgroup");

// The memory that the process may use: the minimum of the cgroup's limit, the address space limit (RLIMIT_AS) and the
// machine's memory.
[[nodiscard]] std::uint64_t usable_memory();

}  // namespace sluice::core
