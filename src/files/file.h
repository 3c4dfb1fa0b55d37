#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "files/coding.h"
#include "files/conditions.h"

namespace sluice::files {

// An open descriptor, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Whether a call may wait for a disk. One that may not gives EAGAIN where it would have to, and sometimes where it
// would not: then another thread does it.
enum class Patience : std::uint8_t { none, any };

// The folder that is served. It stays open as long as anyone looks below it.
class Root {
 public:
  // Null, with errno.
  [[nodiscard]] static std::shared_ptr<const Root> open(const std::string& path);

  // Whether `path` names another folder by now.
  [[nodiscard]] bool is_replaced(const std::string& path) const;

  // Opens a file or folder beneath the root, and nothing else: by no "..", absolute path or symbolic link is there a
  // way out, since the kernel resolves the path (openat2, RESOLVE_BENEATH). Never waits for the other end of a FIFO. An
  // error is an errno.
  [[nodiscard]] std::expected<Descriptor, int> open_beneath(const std::string& path, Patience patience) const;

 private:
  explicit Root(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// One representation of a resource, as it was when it was opened: small ones in memory, others open.
struct File {
  static constexpr std::uint64_t small_bytes = 64 * 1024;

  struct stat status{};
  Descriptor descriptor;  // not open: the bytes are in memory
  std::string bytes;
  std::uint64_t size = 0;
  std::string_view media_type;
  std::string_view coding;  // Content-Encoding; empty: none
  std::string tag;          // strong, with its quotes
  std::string modified;     // Last-Modified; empty: there is none, or it would lie ahead of the clock

  [[nodiscard]] bool in_memory() const { return !descriptor.open(); }
  [[nodiscard]] Validators validators() const {
    return {.tag = tag, .is_dated = !modified.empty(), .modified_s = status.st_mtim.tv_sec};
  }
};

// The representations of one resource, by coding; without the first there is none.
using Files = std::array<std::shared_ptr<const File>, coding_count>;

// What is to be found beneath a root.
struct Lookup {
  std::shared_ptr<const Root> root;
  std::vector<std::string> candidates;  // paths: the first that is a file counts
  bool with_coded = false;              // also `.br`, `.zst` and `.gz` beside it, unless they are older than it
  bool blobs = false;                   // the path is the tag, and the first bytes say the media type
  Files known;                          // what was found before: given again where it has not changed
  std::int64_t now_s = 0;               // the wall clock
};
struct Found {
  int error = 0;           // an errno, unless there are files: ENOENT also where there is only a folder, or a device
  bool is_folder = false;  // the last candidate is one
  Files files;
};
[[nodiscard]] Found look_up(const Lookup& lookup, Patience patience);

// Reads all of [offset, offset + size), or gives an errno; ENODATA: the file is shorter.
[[nodiscard]] int read_whole(int fd, char* into, std::size_t size, std::uint64_t offset, Patience patience);

// The errno says that there is nothing of this name which could be served.
[[nodiscard]] bool is_absence(int error);

}  // namespace sluice::files
