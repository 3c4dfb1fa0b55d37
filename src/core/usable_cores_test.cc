#include "core/usable_cores.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

namespace sluice::core {
namespace {

namespace fs = std::filesystem;

// A cgroup file system in a temporary folder.
class UsableCores : public testing::Test {
 protected:
  UsableCores() {
    std::string name = (fs::temp_directory_path() / "usable_cores_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~UsableCores() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  unsigned limit(const std::string& membership) {
    write("membership", membership);
    return cgroup_cpu_limit(root_, root_ / "membership");
  }

  fs::path root_;
};

TEST_F(UsableCores, no_cgroup_no_limit) {
  EXPECT_EQ(cgroup_cpu_limit(root_, root_ / "missing"), 0U);
  EXPECT_EQ(limit(""), 0U);
  EXPECT_EQ(limit("nonsense\n0:\n::\n"), 0U);
  EXPECT_EQ(limit("0::/\n"), 0U);
}

TEST_F(UsableCores, version_2) {
  write("app/cpu.max", "max 100000\n");
  EXPECT_EQ(limit("0::/app\n"), 0U);
  write("app/cpu.max", "200000 100000\n");
  EXPECT_EQ(limit("0::/app\n"), 2U);
  write("app/cpu.max", "200001 100000\n");
  EXPECT_EQ(limit("0::/app\n"), 3U);
  write("app/cpu.max", "5000 100000\n");
  EXPECT_EQ(limit("0::/app\n"), 1U);
}

TEST_F(UsableCores, version_2_an_ancestor_may_be_the_tighter_one) {
  write("slice/cpu.max", "300000 100000\n");
  write("slice/app/cpu.max", "800000 100000\n");
  EXPECT_EQ(limit("0::/slice/app\n"), 3U);
  EXPECT_EQ(limit("0::/slice/app/without/files\n"), 3U);
}

TEST_F(UsableCores, version_2_in_a_container_that_sees_only_its_own_group) {
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(limit("0::/docker/0123456789\n"), 4U);
}

TEST_F(UsableCores, version_1) {
  write("cpu,cpuacct/app/cpu.cfs_quota_us", "250000\n");
  write("cpu,cpuacct/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit("12:memory:/app\n4:cpu,cpuacct:/app\n0::/\n"), 3U);
  EXPECT_EQ(limit("4:cpuset:/app\n"), 0U);
  write("cpu,cpuacct/app/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(limit("4:cpu,cpuacct:/app\n"), 0U);
}

TEST_F(UsableCores, version_1_mounted_by_its_short_name) {
  write("cpu/cpu.cfs_quota_us", "100000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit("4:cpu,cpuacct:/host/path\n"), 1U);
}

TEST_F(UsableCores, malformed_files_set_no_limit) {
  write("app/cpu.max", "100000 0\n");
  EXPECT_EQ(limit("0::/app\n"), 0U);
  write("app/cpu.max", "-5 100000\n");
  EXPECT_EQ(limit("0::/app\n"), 0U);
  write("app/cpu.max", "100000\n");
  EXPECT_EQ(limit("0::/app\n"), 0U);
}

TEST_F(UsableCores, memory) {
  const auto memory = [&](const std::string& membership) {
    write("membership", membership);
    return cgroup_memory_limit(root_, root_ / "membership");
  };
  EXPECT_EQ(memory("0::/slice/app\n"), 0U);
  write("slice/memory.max", "max\n");
  EXPECT_EQ(memory("0::/slice/app\n"), 0U);
  write("slice/memory.max", "536870912\n");
  write("slice/app/memory.max", "9663676416\n");
  EXPECT_EQ(memory("0::/slice/app\n"), 512U << 20);
  write("memory/v1/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(memory("12:memory:/v1\n4:cpu,cpuacct:/app\n"), 1U << 30);
  EXPECT_EQ(memory("4:cpu,cpuacct:/v1\n"), 0U);
  EXPECT_GT(usable_memory(), 0U);
}

TEST_F(UsableCores, follows_the_affinity_mask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const std::vector<unsigned> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(static_cast<int>(cpus.size()), CPU_COUNT(&before));
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_GE(usable_cores(), 1U);
  EXPECT_LE(usable_cores(), cpus.size());

  cpu_set_t last;
  CPU_ZERO(&last);
  CPU_SET(cpus.back(), &last);
  ASSERT_EQ(sched_setaffinity(0, sizeof last, &last), 0);
  EXPECT_EQ(allowed_cpus(), std::vector<unsigned>{cpus.back()});
  EXPECT_EQ(usable_cores(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace sluice::core
