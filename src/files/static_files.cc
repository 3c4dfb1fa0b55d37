#include "files/static_files.h"

#include <cerrno>
#include <cstdio>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "files/coding.h"
#include "files/conditions.h"
#include "files/multipart.h"
#include "http/accept.h"
#include "http/entity_tag.h"
#include "http/escape.h"

namespace sluice::files {
namespace {

bool is_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// Whether a name in the path begins with a dot. Sites keep their certificates' proofs and the like in .well-known (RFC
// 8615).
bool is_hidden(std::string_view path) {
  if (is_below(path, ".well-known")) path.remove_prefix(1);
  return path.starts_with('.') || path.contains("/.");
}

bool is_folder_path(std::string_view path) { return path.empty() || path.ends_with('/'); }

// Whether the fallback is used depends on Accept, so its answer varies by Accept.
std::string_view vary_of_fallback(const Content& content) {
  return content.vary.empty() ? "Accept" : "Accept, Accept-Encoding";
}

http::Response try_again() {
  http::Response response = http::problem(503);
  response.fields.add("Retry-After", "1");
  return response;
}

// Redirects to a path without an authority, so the client stays on the same host. The path begins with exactly one
// slash, so it cannot name another host.
http::Response redirect_to_slash(const http::Request& request) {
  http::Response response;
  response.status = 301;
  std::string location;
  http::append_url_path(location, request.path);
  location += '/';
  if (!request.query.empty()) {
    location += '?';
    location += request.query;
  }
  response.fields.add_owned("Location", std::move(location));
  return response;
}

}  // namespace

StaticFiles::StaticFiles(const FilesOptions& options, core::Reactor& reactor, core::Mailbox& mailbox,
                         core::BlockingPool& threads, Kind kind)
    : root_path_(options.root.value),
      index_(options.index),
      fallback_(options.fallback ? options.fallback->value : std::string{}),
      cache_control_(options.cache_control ? options.cache_control->value : std::string{}),
      dotfiles_(options.dotfiles),
      lists_(options.listing),
      precompressed_(options.precompressed),
      blobs_(kind == Kind::blobs),
      reactor_(reactor),
      mailbox_(mailbox),
      threads_(threads),
      root_(Root::open(root_path_)),
      root_checked_(reactor.now()),
      cache_({.files = options.cache_files, .bytes = options.cache_memory}) {
  if (!root_) throw std::system_error(errno, std::generic_category(), root_path_);
  std::random_device random;
  boundary_seed_ = std::uint64_t{random()} << 32 | random();
}

StaticFiles::~StaticFiles() = default;

core::Async<http::Response> StaticFiles::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  // A file name cannot contain a slash, so a path with an encoded slash matches no file. If the path has no escapes,
  // `segments` and `path` are the same view.
  if (request.segments.data() != request.path.data() && request.segments.contains('\0')) [[unlikely]] {
    return fall_back(request, request.path_values[0], Role::asked, ENOENT);
  }
  // The router passes the folder's own path without its final slash too.
  if (request.path_values[0].empty() && !request.path.ends_with('/')) [[unlikely]]
    return redirect_to_slash(request);
  return serve(request, request.path_values[0], Role::asked);
}

core::Async<http::Response> StaticFiles::serve_blob(http::Request& request, std::string_view path) {
  return serve(request, path, Role::asked);
}

inline core::Async<http::Response> StaticFiles::serve(http::Request& request, std::string_view path, Role role) {
  const Cache::Entry* known = cache_.find(path);
  if (known != nullptr && reactor_.now() - known->checked < freshness) [[likely]] {
    cache_.count_hit();
    return answer(request, known->content, role);
  }
  return find(request, path, role, known);
}

core::Async<http::Response> StaticFiles::find(http::Request& request, std::string_view path, Role role,
                                              const Cache::Entry* known) {
  // NUL occurs in no file name, but in the cache keys of listings.
  if (path.contains('\0')) return http::problem(404, "There is no such file.");
  if (role == Role::asked && !dotfiles_ && is_hidden(path)) return fall_back(request, path, role, ENOENT);
  cache_.count_miss();
  look_at_root();
  Lookup lookup{.root = root_,
                .candidates = {},
                .with_coded = precompressed_,
                .blobs = blobs_,
                .known = known != nullptr ? known->content.files : Files{},
                .now_s = now_s()};
  if (!is_folder_path(path)) {
    lookup.candidates.emplace_back(path);
  } else {
    for (const std::string& name : index_) lookup.candidates.push_back(std::string(path) + name);
  }
  Found found = look_up(lookup, Patience::none);
  if (found.error == EAGAIN) return find_slowly(request, path, role, std::move(lookup));
  return conclude(request, path, role, std::move(found));
}

core::Task<http::Response> StaticFiles::find_slowly(http::Request& request, std::string_view path, Role role,
                                                    Lookup lookup) {
  auto work = [lookup = std::move(lookup)] { return look_up(lookup, Patience::any); };
  auto found = co_await threads_.run(mailbox_, std::move(work));
  if (!found) co_return try_again();
  co_return co_await conclude(request, path, role, std::move(*found));
}

core::Async<http::Response> StaticFiles::conclude(http::Request& request, std::string_view path, Role role,
                                                  Found found) {
  if (found.error == 0) {
    Content content{.files = std::move(found.files), .vary = {}};
    for (std::size_t i = 1; i < coding_count; ++i) content.is_coded |= content.files[i] != nullptr;
    if (content.is_coded) content.vary = "Accept-Encoding";
    cache_.store(path, content, reactor_.now());
    return answer(request, content, role);
  }
  cache_.erase(path);
  if (found.is_folder && !is_folder_path(path) && role == Role::asked) return redirect_to_slash(request);
  if (!is_absence(found.error)) return refuse(found.error);
  if (lists_ && is_folder_path(path)) return list(request, path);
  return fall_back(request, path, role, found.error);
}

// Listings are in the cache too. The key of each format contains a NUL, so it cannot be a path.
core::Async<http::Response> StaticFiles::list(http::Request& request, std::string_view path) {
  const bool wants_json =
      http::quality_of(request.fields, "application", "json") > http::quality_of(request.fields, "text", "html");
  const auto format = wants_json ? ListingFormat::json : ListingFormat::html;
  const Cache::Entry* known = cache_.find(std::string(path) + '\0' + (wants_json ? 'j' : 'h'));
  if (known != nullptr && reactor_.now() - known->checked < freshness) {
    return answer(request, known->content, Role::asked);
  }
  return list_slowly(request, path, format, known != nullptr ? known->content.files[0] : nullptr);
}

core::Task<http::Response> StaticFiles::list_slowly(http::Request& request, std::string_view path, ListingFormat format,
                                                    std::shared_ptr<const File> known) {
  auto work = [root = root_, folder = std::string(path), shown = std::string(request.path), format,
               known = std::move(known)] { return list_folder(*root, folder, shown, format, known); };
  auto listed = co_await threads_.run(mailbox_, std::move(work));
  if (!listed) co_return try_again();
  const std::string key = std::string(path) + '\0' + (format == ListingFormat::json ? 'j' : 'h');
  if (!*listed) {
    cache_.erase(key);
    const int error = listed->error();
    if (!is_absence(error)) co_return refuse(error);
    co_return co_await fall_back(request, path, Role::asked, error);
  }
  Content content{.files = {std::move(**listed)}, .vary = "Accept"};
  cache_.store(key, content, reactor_.now());
  co_return answer(request, content, Role::asked).take();
}

core::Async<http::Response> StaticFiles::fall_back(http::Request& request, std::string_view path, Role role,
                                                   int error) {
  if (role == Role::asked && wants_fallback(request, path)) return serve(request, fallback_, Role::fallback);
  return refuse(error);
}

// A missing script or picture must not be answered with a page. Requests for scripts and pictures accept `*/*`, but so
// do many requests for pages. Therefore `*/*` is enough only for paths without an extension, while text/html is enough
// for all paths.
bool StaticFiles::wants_fallback(const http::Request& request, std::string_view path) const {
  if (fallback_.empty() || http::quality_of(request.fields, "text", "html") == 0) return false;
  for (const std::string& api : api_paths_) {
    if (is_below(request.path, api)) return false;
  }
  for (const http::Field& field : request.fields) {
    if (http::same_name(field.name, "accept") && http::lists_token(field.value, "text/html")) return true;
  }
  for (const std::string_view api : api_paths_) {
    const std::string_view folder = api.substr(0, api.rfind('/'));
    if (!folder.empty() && is_below(request.path, folder)) return false;
  }
  return !path.substr(path.rfind('/') + 1).contains('.');
}

http::Response StaticFiles::refuse(int error) const {
  switch (error) {
    case EACCES:
    case EPERM:
      return http::problem(403, "The file may not be read.");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:  // the file is rewritten again and again
      return try_again();
    default:
      if (!is_absence(error)) return http::problem(500, "The file cannot be read.");
      http::Response response = http::problem(404, "There is no such file.");
      if (!fallback_.empty()) response.fields.add("Vary", "Accept");
      return response;
  }
}

inline core::Async<http::Response> StaticFiles::answer(const http::Request& request, const Content& content,
                                                       Role role) {
  const std::shared_ptr<const File>& file = content.is_coded ? choose(request, content) : content.files[0];
  const std::string_view vary = role == Role::asked ? content.vary : vary_of_fallback(content);
  if (const Conditions conditions(request.fields); !conditions.empty()) [[unlikely]] {
    return answer_if(request, conditions, file, vary);
  }
  // Filled in place, because moving a response is expensive.
  core::Async<http::Response> whole(200);
  fill_whole(whole.get(), file, vary);
  return whole;
}

const std::shared_ptr<const File>& StaticFiles::choose(const http::Request& request, const Content& content) {
  std::array<std::uint64_t, coding_count> sizes{};
  for (std::size_t i = 0; i < coding_count; ++i) sizes[i] = content.files[i] ? content.files[i]->size : 0;
  return content.files[static_cast<std::size_t>(choose_coding(request.fields, sizes))];
}

// The body keeps the file alive, and with it the text of the fields.
inline void StaticFiles::fill_whole(http::Response& response, const std::shared_ptr<const File>& file,
                                    std::string_view vary) const {
  response.fields.add_trusted("Content-Type", file->media_type);
  add_common_fields(response, *file, vary);
  if (file->in_memory()) {
    response.body.emplace<http::SharedBytes>(file, file->bytes);
  } else {
    response.fields.add_trusted("Accept-Ranges", "bytes");
    response.body.emplace<http::FileRange>(file, file->descriptor.get(), std::uint64_t{0}, file->size);
  }
}

// The common fields of a 200 and a 206. A 304 has only those that a cache needs (RFC 9110, 15.4.5).
inline void StaticFiles::add_common_fields(http::Response& response, const File& file, std::string_view vary) const {
  if (response.status != 304) [[likely]] {
    if (!file.coding.empty()) response.fields.add_trusted("Content-Encoding", file.coding);
    if (!file.modified.empty()) response.fields.add_trusted("Last-Modified", file.modified);
  }
  response.fields.add_trusted("ETag", file.tag);
  if (!cache_control_.empty()) response.fields.add_trusted("Cache-Control", cache_control_);
  if (!vary.empty()) response.fields.add_trusted("Vary", vary);
}

http::Response StaticFiles::answer_if(const http::Request& request, const Conditions& conditions,
                                      const std::shared_ptr<const File>& file, std::string_view vary) {
  http::Response response;
  const Validators validators = file->validators();
  const Conditions::Verdict verdict = conditions.judge(validators, now_s());
  if (verdict == Conditions::Verdict::malformed) return http::refuse_mixed_any();
  if (verdict == Conditions::Verdict::failed) return http::problem(412, "The file is another version by now.");
  if (verdict == Conditions::Verdict::not_modified) {
    response.status = 304;
    add_common_fields(response, *file, vary);
    response.body = http::SharedBytes{.owner = file, .bytes = {}};
    return response;
  }
  if (request.method == http::Method::get) {  // only GET has ranges (RFC 9110, 14.2)
    const RangeSet ranges(conditions.range(validators, now_s()), file->size);
    if (ranges.kind() == RangeSet::Kind::unsatisfiable) {
      response = http::problem(416, "The file has no such bytes.");
      response.fields.add_owned("Content-Range", "bytes */" + std::to_string(file->size));
      return response;
    }
    if (ranges.kind() == RangeSet::Kind::parts && fill_parts(response, file, ranges.parts())) {
      add_common_fields(response, *file, vary);
      return response;
    }
  }
  fill_whole(response, file, vary);
  return response;
}

// The body of a 206 and the fields that describe it. Returns false if the whole file must be sent: if the parts would
// be larger, or if there are several parts of a compressed file, because Content-Encoding would claim that the
// multipart itself is compressed.
bool StaticFiles::fill_parts(http::Response& response, const std::shared_ptr<const File>& file,
                             std::span<const ByteRange> parts) {
  if (parts.size() > 1) {
    if (!file->coding.empty()) return false;
    auto source = std::make_unique<MultipartRanges>(file, parts, next_boundary(), mailbox_, threads_);
    if (source->size() >= file->size) return false;
    response.status = 206;
    response.fields.add_trusted("Content-Type", source->media_type());
    response.body = std::move(source);
    return true;
  }
  const auto [begin, size] = parts[0];
  response.status = 206;
  response.fields.add_trusted("Content-Type", file->media_type);
  response.fields.add_owned("Content-Range", content_range(parts[0], file->size));
  if (file->in_memory()) {
    response.body = http::SharedBytes{.owner = file, .bytes = std::string_view(file->bytes).substr(begin, size)};
  } else {
    response.body = http::FileRange{.owner = file, .fd = file->descriptor.get(), .offset = begin, .size = size};
  }
  return true;
}

// The folder may have been replaced, for example by a new release. Later lookups then use the new one.
void StaticFiles::look_at_root() {
  if (reactor_.now() - root_checked_ < freshness) return;
  root_checked_ = reactor_.now();
  if (!root_->is_replaced(root_path_)) return;
  if (auto fresh = Root::open(root_path_)) root_ = std::move(fresh);
}

// Uses splitmix64 with a random seed. Clients cannot predict a boundary, so they cannot put it into a file.
std::string StaticFiles::next_boundary() {
  std::uint64_t value = boundary_seed_ + ++boundaries_ * 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  value ^= value >> 31;
  char text[24];
  return {text, static_cast<std::size_t>(
                    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value)))};
}

}  // namespace sluice::files
