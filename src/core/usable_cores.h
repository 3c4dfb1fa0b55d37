#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice::core {

// The CPUs that this process may run on, in order.
[[nodiscard]] std::vector<unsigned> allowed_cpus();

// How many CPUs' worth of time the process's cgroup, or one above it, grants, rounded up; 0 when there is no limit.
// Reads v2 (cpu.max) and v1 (cpu.cfs_quota_us) under `root`, where `membership` (the process's /proc/self/cgroup) says.
[[nodiscard]] unsigned cgroup_cpu_limit(const std::filesystem::path& root = "/sys/fs/cgroup",
                                        const std::filesystem::path& membership = "/proc/self/cgroup");

// How many cores are worth a thread: the smaller of the two, and at least 1.
[[nodiscard]] unsigned usable_cores();

// How many bytes of memory the process's cgroup, or one above it, allows; 0 when there is no limit. Reads v2
// (memory.max) and v1 (memory.limit_in_bytes) as above.
[[nodiscard]] std::uint64_t cgroup_memory_limit(const std::filesystem::path& root = "/sys/fs/cgroup",
                                                const std::filesystem::path& membership = "/proc/self/cgroup");

// How much memory the process may use: the least of that, of its address space (RLIMIT_AS) and of the machine's memory.
[[nodiscard]] std::uint64_t usable_memory();

}  // namespace sluice::core
