#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "files/cache.h"
#include "files/conditions.h"
#include "files/file.h"
#include "files/listing.h"
#include "files/options.h"
#include "files/ranges.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"

namespace sluice::files {

// One core's handler of a [[files]] folder. The route's first path value is the path below the root. Only
// Root::open_beneath decides which files can be reached.
//
// A cache entry that was checked within the last second is sent without a system call. Otherwise this core looks the
// file up. If the look-up would have to wait for the disk, a thread of the pool does it.
class StaticFiles final : public http::Handler {
 public:
  static constexpr Duration freshness = 1s;
  enum class Kind : std::uint8_t {
    folder,
    blobs,  // a [store.NAME]: a file's path is its hash, and also its tag
  };

  // Throws std::system_error if the root cannot be opened.
  StaticFiles(const FilesOptions& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads,
              Kind kind = Kind::folder);
  ~StaticFiles() override;

  // Paths of endpoints, tables and routes, up to their first parameter: "/api/films". The fallback is never sent for
  // paths below them. For other paths in the same folder ("/api") it is sent only if Accept names text/html.
  void set_api_paths(std::vector<std::string> paths) { api_paths_ = std::move(paths); }

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;
  // Serves the file of this path, for Kind::blobs. `path` must outlive the call.
  [[nodiscard]] core::Async<http::Response> serve_blob(http::Request& request, std::string_view path);
  [[nodiscard]] const Cache::Counters& counters() const { return cache_.counters(); }

 private:
  // Whether the path is the requested one or the fallback.
  enum class Role : std::uint8_t { asked, fallback };

  core::Async<http::Response> serve(http::Request& request, std::string_view path, Role role);
  core::Async<http::Response> find(http::Request& request, std::string_view path, Role role, const Cache::Entry* known);
  core::Task<http::Response> find_slowly(http::Request& request, std::string_view path, Role role, Lookup lookup);
  core::Async<http::Response> conclude(http::Request& request, std::string_view path, Role role, Found found);
  core::Async<http::Response> list(http::Request& request, std::string_view path);
  core::Task<http::Response> list_slowly(http::Request& request, std::string_view path, ListingFormat format,
                                         std::shared_ptr<const File> known);
  core::Async<http::Response> fall_back(http::Request& request, std::string_view path, Role role, int error);

  [[nodiscard]] bool wants_fallback(const http::Request& request, std::string_view path) const;
  // The result is always ready.
  [[nodiscard]] core::Async<http::Response> answer(const http::Request& request, const Content& content, Role role);
  [[nodiscard]] http::Response answer_if(const http::Request& request, const Conditions& conditions,
                                         const std::shared_ptr<const File>& file, std::string_view vary);
  [[nodiscard]] static const std::shared_ptr<const File>& choose(const http::Request& request, const Content& content);
  void fill_whole(http::Response& response, const std::shared_ptr<const File>& file, std::string_view vary) const;
  void add_common_fields(http::Response& response, const File& file, std::string_view vary) const;
  [[nodiscard]] bool fill_parts(http::Response& response, const std::shared_ptr<const File>& file,
                                std::span<const ByteRange> parts);
  [[nodiscard]] http::Response refuse(int error) const;
  [[nodiscard]] std::int64_t now_s() const { return reactor_.wall_clock_ns() / 1'000'000'000; }
  void look_at_root();
  std::string next_boundary();

  const std::string root_path_;
  const std::vector<std::string> index_;
  const std::string fallback_;  // empty if absent
  std::vector<std::string> api_paths_;
  const std::string cache_control_;  // empty if absent
  const bool dotfiles_;
  const bool lists_;
  const bool precompressed_;
  const bool blobs_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<const Root> root_;
  Instant root_checked_;
  Cache cache_;
  std::uint64_t boundary_seed_;
  std::uint64_t boundaries_ = 0;
};

}  // namespace sluice::files
