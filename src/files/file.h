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

// An open file descriptor. The destructor closes it.
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

// Whether a call may wait for a disk. With `none` the call returns EAGAIN if it would have to wait, and
// sometimes if it would not. The caller then repeats the call on another thread.
enum class Patience : std::uint8_t { none, any };

// The folder that is served. Its descriptor stays open until the last owner of the object is gone.
class Root {
 public:
  // Returns null and sets errno on failure.
  [[nodiscard]] static std::shared_ptr<const Root> open(const std::string& path);

  // Whether `path` now names another folder.
  [[nodiscard]] bool is_replaced(const std::string& path) const;

  // Opens a file or folder beneath the root. The kernel resolves the path with RESOLVE_BENEATH (openat2), so no "..",
  // absolute path or symbolic link leads outside. Never waits for the other end of a FIFO. Errors are errnos.
  [[nodiscard]] std::expected<Descriptor, int> open_beneath(const std::string& path, Patience patience) const;

 private:
  explicit Root(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// One representation of a resource, as it was when it was opened. Small files are held in memory, others stay open.
struct File {
  static constexpr std::uint64_t small_bytes = 64 * 1024;
  static constexpr std::uint64_t hashed_bytes = 1024 * 1024;  // the tag is a hash of the content up to this size

  struct stat status{};
  Descriptor descriptor;  // not open if the bytes are in memory
  std::string bytes;
  std::uint64_t size = 0;
  std::string_view media_type;
  std::string_view coding;  // Content-Encoding; empty if absent
  std::string tag;          // strong, with its quotes
  std::string modified;     // Last-Modified; empty if absent, or if it would be in the future

  [[nodiscard]] bool in_memory() const { return !descriptor.open(); }
  [[nodiscard]] Validators validators() const {
    return {.tag = tag, .is_dated = !modified.empty(), .modified_s = status.st_mtim.tv_sec};
  }
};

// The representations of one resource, by coding. Without the identity the resource does not exist.
using Files = std::array<std::shared_ptr<const File>, coding_count>;

// The files to look for beneath a root.
struct Lookup {
  std::shared_ptr<const Root> root;
  std::vector<std::string> candidates;  // paths; the first that is a file is used
  bool with_coded = false;              // also look for `.br`, `.zst` and `.gz` beside it that are not older
  bool blobs = false;                   // the path is the tag, and the first bytes determine the media type
  Files known;                          // from an earlier lookup; returned again if unchanged
  std::int64_t now_s = 0;               // wall clock, seconds since 1970
};
struct Found {
  int error = 0;           // an errno if there are no files; ENOENT also if the path names only a folder or a device
  bool is_folder = false;  // the last candidate is a folder
  Files files;
};
[[nodiscard]] Found look_up(const Lookup& lookup, Patience patience);

// A strong entity-tag: a hash of the bytes.
[[nodiscard]] std::string tag_of_content(std::string_view content);

// Reads all of [offset, offset + size). Returns 0 or an errno; ENODATA if the file is shorter.
[[nodiscard]] int read_whole(int fd, char* into, std::size_t size, std::uint64_t offset, Patience patience);

// Whether the errno means that the name has nothing that can be served.
[[nodiscard]] bool is_absence(int error);

}  // namespace sluice::files
