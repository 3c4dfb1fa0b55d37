#include "runtime/file_watch.h"

#include <sys/stat.h>

namespace sluice::runtime {

void FileWatch::reading() { read_ = seen_ = look(); }

bool FileWatch::changed() {
  auto current = look();
  const bool stands_still = current == seen_;
  seen_ = std::move(current);
  return stands_still && seen_ != read_;
}

std::vector<FileWatch::Stamp> FileWatch::look() const {
  std::vector<Stamp> stamps;
  for (const std::string& path : paths_) {
    struct stat status{};
    Stamp stamp;
    if (::stat(path.c_str(), &status) == 0) {
      stamp = {status.st_dev, status.st_ino, status.st_size,
               std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
    }
    stamps.push_back(stamp);
  }
  return stamps;
}

}  // namespace sluice::runtime
