#include "runtime/process_readings.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/free.h"

namespace sluice::runtime {
namespace {

constexpr const char* open_files = "/proc/self/fd";

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// A short file of /proc; empty if it cannot be read.
std::string read_proc(const char* path) {
  char text[1024];
  const std::unique_ptr<std::FILE, Free<std::fclose>> file(std::fopen(path, "re"));
  return file ? std::string(text, std::fread(text, 1, sizeof text, file.get())) : std::string();
}

// Unix time.
double start_of_process() {
  // The second field is the program's name in parentheses, and the 22nd the clock ticks from the boot to the start.
  const std::string stat = read_proc("/proc/self/stat");
  unsigned long long ticks = 0;
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos ||
      std::sscanf(stat.c_str() + name_end + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ticks) != 1) {
    return seconds_of(CLOCK_REALTIME);
  }
  const double age =
      seconds_of(CLOCK_BOOTTIME) - static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds_of(CLOCK_REALTIME) - age;
}

void add_memory(Readings& all) {
  unsigned long long size = 0;
  unsigned long long resident = 0;
  if (std::sscanf(read_proc("/proc/self/statm").c_str(), "%llu %llu", &size, &resident) != 2) return;
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  all.push_back(
      gauge("process_resident_memory_bytes", "Resident memory size in bytes.", static_cast<double>(resident) * page));
  all.push_back(
      gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", static_cast<double>(size) * page));
}

}  // namespace

std::optional<std::uint64_t> count_open_files() {
  struct stat status{};
  if (::stat(open_files, &status) != 0 || status.st_size == 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size);
}

std::optional<std::uint64_t> list_open_files() {
  const std::unique_ptr<DIR, Free<::closedir>> folder(::opendir(open_files));
  if (!folder) return std::nullopt;
  std::uint64_t count = 0;
  while (const dirent* const entry = ::readdir(folder.get())) count += entry->d_name[0] != '.' ? 1 : 0;
  return count - 1;  // without the folder itself
}

ProcessReadings::ProcessReadings(core::Core& core) : core_(core), start_s_(start_of_process()) {
  if (!count_open_files()) lister_.emplace(1, 1);
}

core::Task<Readings> ProcessReadings::gather() {
  Readings all{
      counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
              seconds_of(CLOCK_PROCESS_CPUTIME_ID)),
      gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", start_s_),
  };
  add_memory(all);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    all.push_back(
        gauge("process_max_fds", "Maximum number of open file descriptors.", static_cast<double>(limit.rlim_cur)));
  }
  std::optional<std::uint64_t> open = count_open_files();
  if (lister_) {
    auto work = [] { return list_open_files(); };
    if (const auto listed = co_await lister_->run(core_.mailbox(), std::move(work))) open = *listed;
  }
  if (open) {
    all.push_back(gauge("process_open_fds", "Number of open file descriptors.", static_cast<double>(*open)));
  }
  co_return all;
}

}  // namespace sluice::runtime
