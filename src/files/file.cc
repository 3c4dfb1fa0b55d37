#include "files/file.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "files/http_date.h"
#include "files/media_type.h"
#include "files/sniff.h"

namespace sluice::files {
namespace {

constexpr int most_reads_tried = 3;  // to read a file that is being written

// O_NONBLOCK: opening a FIFO without a writer must not block.
constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

int openat2(int folder, const std::string& path, int flags, std::uint64_t resolve) {
  open_how how{.flags = static_cast<std::uint64_t>(flags), .mode = 0, .resolve = resolve};
  return static_cast<int>(::syscall(SYS_openat2, folder, path.empty() ? "." : path.c_str(), &how, sizeof how));
}

// If openat2 is unknown to the kernel or blocked by a system call filter, this opens the path step by step and refuses
// all symbolic links.
std::expected<Descriptor, int> walk_beneath(int root, const std::string& path) {
  if (path.starts_with('/')) return std::unexpected(EXDEV);
  constexpr int folder_flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  Descriptor folder(::openat(root, ".", folder_flags));
  if (!folder.open()) return std::unexpected(errno);
  for (std::string_view rest = path;;) {
    const auto slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    if (name == "..") return std::unexpected(EXDEV);
    const bool last = slash == std::string_view::npos;
    Descriptor next(
        ::openat(folder.get(), name.empty() ? "." : name.c_str(), last ? open_flags | O_NOFOLLOW : folder_flags));
    if (!next.open()) return std::unexpected(errno);
    if (last) return next;
    folder = std::move(next);
    rest.remove_prefix(slash + 1);
  }
}

bool is_same(const struct stat& a, const struct stat& b) {
  const auto same_time = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim) &&
         same_time(a.st_ctim, b.st_ctim);
}

bool is_older(const struct stat& a, const struct stat& b) {
  return a.st_mtim.tv_sec != b.st_mtim.tv_sec ? a.st_mtim.tv_sec < b.st_mtim.tv_sec
                                              : a.st_mtim.tv_nsec < b.st_mtim.tv_nsec;
}

std::string tag_of(const struct stat& status) {
  return fmt::format("\"{:x}-{:x}{:08x}-{:x}{:08x}\"", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

std::string tag_of_blob(std::string_view path) {
  std::string tag = "\"";
  for (const char c : path) {
    if (c != '/') tag += c;
  }
  return tag += '"';
}

std::string_view media_type_of_blob(std::string_view first_bytes) {
  const std::string_view type = sniff(first_bytes);
  return type.empty() ? "application/octet-stream" : type;
}

// Returns a file, null for a folder, or an errno.
std::expected<std::shared_ptr<const File>, int> open_file(const Lookup& lookup, const std::string& path, Coding coding,
                                                          std::string_view media_type, Patience patience) {
  auto opened = lookup.root->open_beneath(path, patience);
  if (!opened) return std::unexpected(opened.error());
  struct stat status{};
  for (int attempt = 0; attempt < most_reads_tried; ++attempt) {
    if (::fstat(opened->get(), &status) != 0) return std::unexpected(errno);
    if (S_ISDIR(status.st_mode)) return nullptr;
    if (!S_ISREG(status.st_mode)) return std::unexpected(ENOENT);
    const auto& known = lookup.known[static_cast<std::size_t>(coding)];
    if (known && is_same(known->status, status) && (lookup.blobs || known->media_type == media_type)) return known;

    auto file = std::make_shared<File>();
    file->status = status;
    file->size = static_cast<std::uint64_t>(status.st_size);
    file->media_type = media_type;
    file->coding = name_of(coding);
    file->tag = lookup.blobs ? tag_of_blob(path) : tag_of(status);
    // Build tools set the times 0 and 1 to make builds reproducible.
    const bool is_dated = status.st_mtim.tv_sec > 1 && status.st_mtim.tv_sec <= lookup.now_s;
    if (is_dated && !lookup.blobs) file->modified = http_date(status.st_mtim.tv_sec);
    const bool is_small = file->size <= File::small_bytes;
    const bool is_hashed = !lookup.blobs && file->size <= File::hashed_bytes;
    if (!is_small && !is_hashed) {
      if (lookup.blobs) {
        char first[sniffed_bytes];
        const int error = read_whole(opened->get(), first, sizeof first, 0, patience);
        if (error != 0) return std::unexpected(error);
        file->media_type = media_type_of_blob({first, sizeof first});
      }
      file->descriptor = std::move(*opened);
      return file;
    }
    file->bytes.resize(file->size);
    const int error = read_whole(opened->get(), file->bytes.data(), file->size, 0, patience);
    if (error != 0 && error != ENODATA) return std::unexpected(error);
    struct stat after{};
    if (::fstat(opened->get(), &after) != 0) return std::unexpected(errno);
    if (error != 0 || !is_same(status, after)) continue;
    if (lookup.blobs) file->media_type = media_type_of_blob(std::string_view(file->bytes).substr(0, sniffed_bytes));
    if (is_hashed) file->tag = tag_of_content(file->bytes);
    if (!is_small) {
      file->bytes = {};
      file->descriptor = std::move(*opened);
    }
    return file;
  }
  return std::unexpected(EAGAIN);
}

}  // namespace

std::string tag_of_content(std::string_view content) {
  return fmt::format("\"{:016x}\"", XXH3_64bits(content.data(), content.size()));
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::shared_ptr<const Root> Root::open(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!descriptor.open() || ::fstat(descriptor.get(), &status) != 0) return nullptr;
  const std::shared_ptr<Root> root(new Root(std::move(descriptor)));
  root->device_ = status.st_dev;
  root->inode_ = status.st_ino;
  return root;
}

bool Root::is_replaced(const std::string& path) const {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         (status.st_dev != device_ || status.st_ino != inode_);
}

std::expected<Descriptor, int> Root::open_beneath(const std::string& path, Patience patience) const {
  constexpr std::uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (patience == Patience::none) {
    Descriptor opened(openat2(descriptor_.get(), path, open_flags, beneath | RESOLVE_CACHED));
    if (opened.open()) return opened;
    if (errno == EACCES || errno == EXDEV || is_absence(errno)) return std::unexpected(errno);
    // With RESOLVE_CACHED, the kernel reports a missing file only if it is opened with O_PATH.
    const Descriptor looked(openat2(descriptor_.get(), path, O_PATH | O_CLOEXEC, beneath | RESOLVE_CACHED));
    return std::unexpected(!looked.open() && is_absence(errno) ? errno : EAGAIN);
  }
  for (int attempt = 0;; ++attempt) {
    Descriptor opened(openat2(descriptor_.get(), path, open_flags, beneath));
    if (opened.open()) return opened;
    if (errno == ENOSYS || errno == EPERM) return walk_beneath(descriptor_.get(), path);
    // EAGAIN: a part of the path was renamed meanwhile.
    if (errno != EAGAIN || attempt == most_reads_tried) return std::unexpected(errno);
  }
}

Found look_up(const Lookup& lookup, Patience patience) {
  Found found{.error = ENOENT, .is_folder = false, .files = {}};
  for (const std::string& path : lookup.candidates) {
    const std::string_view media_type = media_type_of(path);
    auto file = open_file(lookup, path, Coding::identity, media_type, patience);
    found.is_folder = file && *file == nullptr;
    if (found.is_folder) continue;
    if (!file) {
      found.error = file.error();
      if (is_absence(found.error)) continue;
      return found;
    }
    found.files[0] = std::move(*file);
    found.error = 0;
    for (std::size_t i = 1; lookup.with_coded && i < coding_count; ++i) {
      const auto coding = static_cast<Coding>(i);
      auto coded = open_file(lookup, path + std::string(suffix_of(coding)), coding, media_type, patience);
      if (coded && *coded && !is_older((*coded)->status, found.files[0]->status)) {
        found.files[i] = std::move(*coded);
      } else if (!coded && coded.error() == EAGAIN && patience == Patience::none) {
        return {.error = EAGAIN, .is_folder = false, .files = {}};
      }
    }
    return found;
  }
  return found;
}

int read_whole(int fd, char* into, std::size_t size, std::uint64_t offset, Patience patience) {
  while (size != 0) {
    iovec part{into, size};
    const ssize_t count =
        ::preadv2(fd, &part, 1, static_cast<off_t>(offset), patience == Patience::none ? RWF_NOWAIT : 0);
    if (count == 0) return ENODATA;
    if (count < 0) {
      if (errno == EINTR) continue;
      // These errors mean that the file system cannot read without waiting.
      return patience == Patience::none && (errno == EOPNOTSUPP || errno == ENOSYS) ? EAGAIN : errno;
    }
    into += count;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::size_t>(count);
  }
  return 0;
}

bool is_absence(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EXDEV:
    case ENXIO:  // a socket, or a device without a driver
    case ENODEV:
      return true;
    default:
      return false;
  }
}

}  // namespace sluice::files
