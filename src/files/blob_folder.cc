#include "files/blob_folder.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

namespace sluice::files {
namespace {

constexpr const char* incoming = "incoming";
constexpr int most_names_tried = 16;  // to find an unused temporary name
constexpr mode_t file_mode = 0640;
constexpr mode_t folder_mode = 0750;

int hex_value(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::string random_name() {
  std::random_device random;
  char text[40];
  const int size = std::snprintf(text, sizeof text, "%08x%08x%08x", random(), random(), random());
  return {text, static_cast<std::size_t>(size)};
}

int sync(int fd) {
  while (::fsync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int lock(int fd, int how) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// The names in a folder, except those that begin with a dot. Errors are errnos.
std::expected<std::vector<std::string>, int> names_in(int folder) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return std::unexpected(errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(copy), ::closedir);
  if (!entries) {
    const int error = errno;
    ::close(copy);
    return std::unexpected(error);
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  if (errno != 0) return std::unexpected(errno);
  return names;
}

}  // namespace

std::string path_of_blob(std::string_view hash) {
  SLUICE_ASSERT(hash.size() > 2);
  std::string path(hash.substr(0, 2));
  path += '/';
  path += hash.substr(2);
  return path;
}

std::shared_ptr<BlobFolder> BlobFolder::open(const std::string& path, Temporaries temporaries) {
  std::filesystem::create_directories(path);
  Descriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.open()) throw std::system_error(errno, std::generic_category(), path);
  if (::faccessat(root.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  // An unnamed file gets its name through this folder.
  if (::access("/proc/self/fd", X_OK) != 0) temporaries = Temporaries::named;
  return std::shared_ptr<BlobFolder>(new BlobFolder(std::move(root), temporaries));
}

std::expected<Descriptor, int> BlobFolder::open_shard(std::string_view hash) {
  const std::string name(hash.substr(0, 2));
  auto& known = shards_[static_cast<std::size_t>(hex_value(hash[0]) * 16 + hex_value(hash[1]))];
  if (::mkdirat(root_.get(), name.c_str(), folder_mode) == 0 || !known.load(std::memory_order_relaxed)) {
    // Another process may have created it, and may have stopped before the sync.
    if (const int error = sync(root_.get()); error != 0) return std::unexpected(error);
    known.store(true, std::memory_order_relaxed);
  }
  Descriptor shard(::openat(root_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!shard.open()) return std::unexpected(errno);
  return shard;
}

void BlobFolder::remove_leftovers() const {
  const Descriptor folder(::openat(root_.get(), incoming, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open()) return;
  const auto names = names_in(folder.get());
  if (!names) return;
  for (const std::string& name : *names) {
    const Descriptor file(::openat(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    // The process that writes the file holds the lock.
    if (file.open() && lock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder.get(), name.c_str(), 0);
  }
}

std::expected<BlobFolder::Sweep, int> BlobFolder::sweep(const std::function<bool(std::string_view)>& is_used,
                                                        std::int64_t sent_before_s, bool in_earnest) const {
  Sweep sweep;
  constexpr std::string_view digits = "0123456789abcdef";
  for (int i = 0; i < 256; ++i) {
    const std::string prefix{digits[static_cast<std::size_t>(i) >> 4], digits[static_cast<std::size_t>(i) & 15]};
    const Descriptor shard(::openat(root_.get(), prefix.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!shard.open()) {
      if (errno == ENOENT) continue;
      return std::unexpected(errno);
    }
    const auto names = names_in(shard.get());
    if (!names) return std::unexpected(names.error());
    for (const std::string& name : *names) {
      const std::string hash = prefix + name;
      if (!http::is_blob_hash(hash)) continue;
      ++sweep.files;
      if (is_used(hash)) {
        ++sweep.used;
        continue;
      }
      // The lock prevents an upload of the same file between the check of its age and its removal.
      if (const int error = lock(shard.get(), LOCK_EX); error != 0) return std::unexpected(error);
      struct stat status{};
      int error = ::fstatat(shard.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
      if (error == 0 && status.st_mtim.tv_sec >= sent_before_s) {
        ++sweep.young;
      } else if (error == 0) {
        if (in_earnest && ::unlinkat(shard.get(), name.c_str(), 0) != 0) error = errno;
        if (error == 0) {
          ++sweep.removed;
          sweep.removed_bytes += static_cast<std::uint64_t>(status.st_size);
        }
      }
      (void)lock(shard.get(), LOCK_UN);
      if (error != 0 && error != ENOENT) return std::unexpected(error);
    }
  }
  return sweep;
}

class BlobFolder::Incoming::Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  void update(std::string_view bytes) {
    const int done = EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
    SLUICE_ASSERT(done == 1);
  }
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    const int done = EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    SLUICE_ASSERT(done == 1 && size == 32);
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

BlobFolder::Incoming::Incoming(std::shared_ptr<BlobFolder> folder)
    : folder_(std::move(folder)), hash_(std::make_unique<Hash>()) {}

BlobFolder::Incoming::~Incoming() {
  if (!temporary_.empty()) ::unlinkat(folder_->root_.get(), temporary_.c_str(), 0);
}

std::expected<void, int> BlobFolder::Incoming::open_file() {
  if (folder_->temporaries_.load(std::memory_order_relaxed) == Temporaries::unnamed) {
    file_ = Descriptor(::openat(folder_->root_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, file_mode));
    if (file_.open()) return {};
    // Errors of file systems and kernels without O_TMPFILE.
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return std::unexpected(errno);
    folder_->temporaries_.store(Temporaries::named, std::memory_order_relaxed);
  }
  if (::mkdirat(folder_->root_.get(), incoming, folder_mode) != 0 && errno != EEXIST) return std::unexpected(errno);
  for (int attempt = 0; attempt < most_names_tried; ++attempt) {
    const std::string name = std::string(incoming) + "/" + random_name();
    Descriptor file(::openat(folder_->root_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file_mode));
    if (!file.open()) {
      if (errno == EEXIST) continue;
      return std::unexpected(errno);
    }
    // Before this process had the lock, another one may have removed the file as a leftover.
    struct stat status{};
    if (lock(file.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(file.get(), &status) != 0 || status.st_nlink == 0) continue;
    file_ = std::move(file);
    temporary_ = name;
    return {};
  }
  return std::unexpected(EAGAIN);
}

std::expected<void, int> BlobFolder::Incoming::append(std::string_view bytes) {
  if (!file_.open()) {
    if (auto opened = open_file(); !opened) return opened;
  }
  hash_->update(bytes);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return std::unexpected(errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

std::expected<void, int> BlobFolder::Incoming::give_name(int shard, const std::string& name) {
  if (!temporary_.empty()) {
    if (::linkat(folder_->root_.get(), temporary_.c_str(), shard, name.c_str(), 0) != 0) return std::unexpected(errno);
    return {};
  }
  const std::string self = "/proc/self/fd/" + std::to_string(file_.get());
  if (::linkat(AT_FDCWD, self.c_str(), shard, name.c_str(), AT_SYMLINK_FOLLOW) != 0) return std::unexpected(errno);
  return {};
}

std::expected<http::Blob, int> BlobFolder::Incoming::finish() {
  if (auto there = append({}); !there) return std::unexpected(there.error());
  http::Blob blob{.hash = hash_->finish(), .size = size_};
  if (const int error = sync(file_.get()); error != 0) return std::unexpected(error);
  const auto shard = folder_->open_shard(blob.hash);
  if (!shard) return std::unexpected(shard.error());
  const std::string name = blob.hash.substr(2);
  if (const int error = lock(shard->get(), LOCK_SH); error != 0) return std::unexpected(error);
  auto named = give_name(shard->get(), name);
  if (!named && named.error() == EEXIST) {
    // The same content was uploaded before. It counts as uploaded now, so sweep() does not remove it from a client that
    // is about to refer to it.
    named = {};
    if (::utimensat(shard->get(), name.c_str(), nullptr, 0) != 0) named = std::unexpected(errno);
  }
  (void)lock(shard->get(), LOCK_UN);
  if (!named) return std::unexpected(named.error());
  // Syncs even if the file existed, because its uploader may have stopped before the sync.
  if (const int error = sync(shard->get()); error != 0) return std::unexpected(error);
  return blob;
}

}  // namespace sluice::files
