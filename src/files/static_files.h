#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "files/options.h"
#include "http/message.h"
#include "http/server.h"

namespace sluice::files {

// The media type that a file name's extension stands for; text types say charset=utf-8.
[[nodiscard]] std::string_view media_type_of(std::string_view name);

// One core's handler of a [[files]] folder. The route's first path value is the path below the root. Nothing outside
// the root can be reached: paths are resolved by the kernel beneath it (openat2, RESOLVE_BENEATH), symbolic links that
// lead out included.
//
// Files up to `small_bytes` are kept in memory, larger ones open, up to a limit of both; each is checked for change at
// most once a second.
class StaticFiles final : public http::Handler {
 public:
  static constexpr std::uint64_t small_bytes = 64 * 1024;
  static constexpr std::size_t most_entries = 1024;
  static constexpr Duration freshness = 1s;

  // Throws std::system_error where the root cannot be opened.
  StaticFiles(const FilesOptions& options, core::Reactor& reactor);
  ~StaticFiles() override;

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  struct File;
  struct Entry {
    std::string path;
    std::shared_ptr<const File> file;
    Instant checked{};
  };
  using Entries = std::list<Entry>;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // Null, with errno: there is no such file.
  std::shared_ptr<const File> open(const std::string& path) const;
  // Null, with errno: there is no such file. The entry moves to the front.
  std::shared_ptr<const File> find(std::string_view path);
  [[nodiscard]] http::Response answer(const http::Request& request, const std::shared_ptr<const File>& file) const;

  int root_ = -1;
  std::vector<std::string> index_;
  std::string cache_control_;
  core::Reactor& reactor_;
  Entries entries_;  // the one that was used last goes first
  std::unordered_map<std::string_view, Entries::iterator, Hash, std::equal_to<>> by_path_;
};

}  // namespace sluice::files
