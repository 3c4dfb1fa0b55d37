#include "files/static_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace sluice::files {
namespace {

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string http_date(std::time_t time) {
  tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, size);
}

// Strong: another size or another nanosecond of change makes another tag.
std::string tag_of(const struct stat& status) {
  char text[64];
  const int size = std::snprintf(text, sizeof text, "\"%llx-%llx%08lx\"", static_cast<unsigned long long>(status.st_size),
                                 static_cast<unsigned long long>(status.st_mtim.tv_sec),
                                 static_cast<unsigned long>(status.st_mtim.tv_nsec));
  return std::string(text, static_cast<std::size_t>(size));
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// If-None-Match compares weakly (RFC 9110, 13.1.2).
bool lists_tag(std::string_view list, std::string_view tag) {
  if (list == "*") return true;
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    while (item.starts_with(' ') || item.starts_with('\t')) item.remove_prefix(1);
    while (item.ends_with(' ') || item.ends_with('\t')) item.remove_suffix(1);
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == tag) return true;
  }
  return false;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 32> types{{
    {"html", "text/html; charset=utf-8"},
    {"htm", "text/html; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"js", "text/javascript; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"map", "application/json"},
    {"txt", "text/plain; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"xml", "application/xml"},
    {"svg", "image/svg+xml"},
    {"png", "image/png"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"avif", "image/avif"},
    {"ico", "image/x-icon"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"ttf", "font/ttf"},
    {"otf", "font/otf"},
    {"wasm", "application/wasm"},
    {"pdf", "application/pdf"},
    {"zip", "application/zip"},
    {"gz", "application/gzip"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
    {"mp3", "audio/mpeg"},
    {"ogg", "audio/ogg"},
    {"webmanifest", "application/manifest+json"},
}};

// Opens a path beneath a folder, or gives -1 with errno. Where the kernel (or what filters its calls) does not know
// openat2, the way is walked by hand, and symbolic links are refused altogether.
int open_beneath(int root, const std::string& path) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // non-blocking, so that a FIFO does not hold the core up
  open_how how{.flags = flags, .mode = 0, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  const auto fd = static_cast<int>(::syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;

  Descriptor folder(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (path.starts_with('/')) {
    errno = EXDEV;
    return -1;
  }
  for (std::string_view rest = path;;) {
    const auto slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    if (name == "..") {
      errno = EXDEV;
      return -1;
    }
    const bool last = slash == std::string_view::npos;
    const int next = ::openat(folder.fd, name.empty() ? "." : name.c_str(),
                              last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (next < 0 || last) return next;
    ::close(std::exchange(folder.fd, next));
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace

std::string_view media_type_of(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return "application/octet-stream";
  const std::string_view extension = name.substr(dot + 1);
  for (const auto& [known, type] : types) {
    if (http::same_name(known, extension)) return type;
  }
  return "application/octet-stream";
}

struct StaticFiles::File {
  struct stat status {};
  Descriptor descriptor{-1};
  std::string bytes;  // of a small file
  bool in_memory = false;
  std::string_view type;
  std::string tag;
  std::string modified;

  [[nodiscard]] bool is_directory() const { return S_ISDIR(status.st_mode); }
};

StaticFiles::StaticFiles(const FilesOptions& options, core::Reactor& reactor)
    : index_(options.index),
      cache_control_(options.cache_control ? options.cache_control->value : std::string{}),
      reactor_(reactor) {
  root_ = ::open(options.root.value.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_ < 0) throw std::system_error(errno, std::generic_category(), options.root.value);
}

StaticFiles::~StaticFiles() { ::close(root_); }

std::shared_ptr<const StaticFiles::File> StaticFiles::open(const std::string& path) const {
  const int fd = open_beneath(root_, path);
  if (fd < 0) return nullptr;
  auto file = std::make_shared<File>();
  file->descriptor.fd = fd;
  if (::fstat(fd, &file->status) != 0) return nullptr;
  if (file->is_directory()) return file;
  if (!S_ISREG(file->status.st_mode)) {
    errno = ENOENT;
    return nullptr;
  }
  file->type = media_type_of(path);
  file->tag = tag_of(file->status);
  file->modified = http_date(file->status.st_mtim.tv_sec);
  const auto size = static_cast<std::uint64_t>(file->status.st_size);
  if (size > small_bytes) return file;
  file->bytes.resize(size);
  for (std::size_t got = 0; got < size;) {
    const ssize_t count = ::pread(fd, file->bytes.data() + got, size - got, static_cast<off_t>(got));
    if (count <= 0) {  // it has become shorter meanwhile: what is there now is another file
      errno = count == 0 ? EAGAIN : errno;
      return nullptr;
    }
    got += static_cast<std::size_t>(count);
  }
  file->in_memory = true;
  ::close(std::exchange(file->descriptor.fd, -1));
  return file;
}

std::shared_ptr<const StaticFiles::File> StaticFiles::find(std::string_view path) {
  const auto known = by_path_.find(path);
  if (known != by_path_.end()) {
    Entry& entry = *known->second;
    if (reactor_.now() - entry.checked < freshness) [[likely]] {
      if (known->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, known->second);
      return entry.file;
    }
    struct stat status {};
    if (::fstatat(root_, entry.path.c_str(), &status, 0) == 0 && same_file(status, entry.file->status)) {
      entry.checked = reactor_.now();
      entries_.splice(entries_.begin(), entries_, known->second);
      return entry.file;
    }
    const auto gone = known->second;
    by_path_.erase(known);
    entries_.erase(gone);
  }
  auto file = open(std::string(path));
  if (!file || file->is_directory()) return file;
  if (entries_.size() >= most_entries) {
    by_path_.erase(entries_.back().path);
    entries_.pop_back();
  }
  entries_.push_front({.path = std::string(path), .file = file, .checked = reactor_.now()});
  by_path_.emplace(entries_.front().path, entries_.begin());
  return file;
}

core::Async<http::Response> StaticFiles::handle(http::Request& request) {
  const std::string_view path = request.path_values[0];
  if (path.contains('\0')) return http::problem(400);
  // No file's name holds a slash, so one that came encoded names none.
  if (request.segments.contains('\0')) return http::problem(404, "There is no such file.");
  const bool wants_directory = path.empty() || path.ends_with('/');
  errno = ENOENT;
  std::shared_ptr<const File> file;
  if (!wants_directory) {
    file = find(path);
    if (file && file->is_directory()) {
      http::Response response;
      response.status = 301;
      // Relative to the request's own authority: what the client calls us is not ours to repeat.
      std::string location(request.target.substr(0, request.target.find('?')));
      if (location.starts_with("//")) location.erase(0, location.find_first_not_of('/') - 1);
      location += '/';
      if (!request.query.empty()) location += "?" + std::string(request.query);
      response.fields.add_owned("Location", std::move(location));
      return response;
    }
  } else {
    for (const std::string& name : index_) {
      file = find(std::string(path) + name);
      if (file && !file->is_directory()) break;
      file = nullptr;
    }
  }
  if (!file) {
    switch (errno) {
      case EACCES:
      case EPERM: return http::problem(403, "The file may not be read.");
      case EMFILE:
      case ENFILE:
      case ENOMEM:
      case EAGAIN: {
        http::Response response = http::problem(503);
        response.fields.add("Retry-After", "1");
        return response;
      }
      default: return http::problem(404, "There is no such file.");
    }
  }
  return answer(request, file);
}

http::Response StaticFiles::answer(const http::Request& request, const std::shared_ptr<const File>& file) const {
  http::Response response;
  response.fields.add_trusted("Content-Type", file->type);
  response.fields.add_trusted("ETag", file->tag);
  response.fields.add_trusted("Last-Modified", file->modified);
  if (!cache_control_.empty()) response.fields.add("Cache-Control", cache_control_);
  if (const std::string_view known = request.field("if-none-match"); !known.empty()) {
    if (lists_tag(known, file->tag)) response.status = 304;
  } else if (request.field("if-modified-since") == file->modified) {
    response.status = 304;
  }
  // The body keeps the file, and so the fields' text, alive.
  if (file->in_memory) {
    response.body = http::SharedBytes{.owner = file, .bytes = file->bytes};
  } else {
    response.body = http::FileRange{.owner = file,
                                    .fd = file->descriptor.fd,
                                    .offset = 0,
                                    .size = static_cast<std::uint64_t>(file->status.st_size)};
  }
  return response;
}

}  // namespace sluice::files
