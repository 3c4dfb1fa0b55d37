#include "app/components/file_id.h"

#include <sys/stat.h>

namespace sluice::app {

FileId FileId::of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {.device = found.st_dev, .inode = found.st_ino};
}

}  // namespace sluice::app
