#include "gateway/proxy/path_change.h"

#include <algorithm>
#include <array>

#include <re2/re2.h>

#include "base/hex.h"
#include "http/target.h"

namespace sluice::gateway {
namespace {

constexpr int groups = 10;  // `\0` to `\9`

bool is_visible(char c) { return c > ' ' && c < '\x7f'; }

// Decodes the character at `at`, and moves `at` past it. An encoded slash is read as a NUL, as in Request::segments.
char read_character(std::string_view path, std::size_t& at) {
  if (path[at] != '%' || path.size() - at < 3) return path[at++];
  const char c = static_cast<char>(hex_digit(path[at + 1]) << 4 | hex_digit(path[at + 2]));
  at += 3;
  return c == '/' ? '\0' : c;
}

// Whether a server that decodes the path could read the host of another site in it.
bool begins_with_two_slashes(std::string_view path) {
  return path.starts_with("//") || path.starts_with("/%2F") || path.starts_with("/%5C");
}

}  // namespace

PathChange::PathChange() = default;
PathChange::~PathChange() = default;

std::string RewriteOptions::check_to(std::string_view text) {
  if (!text.starts_with('/') && !text.starts_with('\\'))
    return "must begin with \"/\", or with a group such as \"\\\\1\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '?' || text[i] == '#') return "must be a path: the query string is kept as it is";
    if (!is_visible(text[i])) return "takes visible ASCII: write other characters as %XX";
    if (text[i] != '\\') continue;
    ++i;
    if (i == text.size() || text[i] < '0' || text[i] > '9') return "has a backslash without the number of a group";
  }
  return {};
}

std::expected<std::unique_ptr<const PathChange>, std::string> PathChange::make(const RouteOptions& options) {
  auto change = std::unique_ptr<PathChange>(new PathChange);
  if (options.strip) {
    http::append_path(change->strip_, options.strip->value);
    while (change->strip_.ends_with('/')) change->strip_.pop_back();
    return change;
  }
  if (!options.rewrite) return nullptr;
  RE2::Options quiet;
  quiet.set_log_errors(false);
  quiet.set_encoding(RE2::Options::EncodingLatin1);
  quiet.set_max_mem(1 << 20);
  auto match = std::make_unique<RE2>(options.rewrite->match.value, quiet);
  if (!match->ok()) return std::unexpected("not a regular expression: " + match->error());
  change->to_ = options.rewrite->to.value;
  std::string error;
  if (!match->CheckRewriteString(change->to_, &error)) return std::unexpected(error);
  change->match_ = std::move(match);
  return change;
}

std::size_t PathChange::find_end(std::string_view path) const {
  std::size_t end = 0;
  for (std::size_t i = 0; i < strip_.size();) {
    if (end == path.size() || read_character(strip_, i) != read_character(path, end)) return path.npos;
  }
  return end;
}

bool PathChange::is_below_prefix(std::string_view path) const {
  const std::size_t end = find_end(path);
  return end != path.npos && (end == path.size() || path[end] == '/' || path[end] == '?' || path[end] == '#');
}

bool PathChange::apply(std::string& path) const {
  if (match_ == nullptr) {
    const std::size_t end = find_end(path);
    if (end == path.npos) return true;
    path.erase(0, end);
    if (path.empty()) path = "/";
    return path.starts_with('/') && !begins_with_two_slashes(path);
  }
  std::array<re2::StringPiece, groups> found;
  if (!match_->Match(path, 0, path.size(), RE2::UNANCHORED, found.data(),
                     match_->NumberOfCapturingGroups() + 1 < groups ? match_->NumberOfCapturingGroups() + 1 : groups)) {
    return true;
  }
  std::string made;
  for (std::size_t i = 0; i < to_.size(); ++i) {
    if (to_[i] != '\\') {
      made += to_[i];
      continue;
    }
    const re2::StringPiece& group = found[static_cast<std::size_t>(to_[++i] - '0')];
    made.append(group.data(), group.size());
  }
  path = std::move(made);
  return path.starts_with('/') && !begins_with_two_slashes(path) && !http::has_dot_segment(path);
}

}  // namespace sluice::gateway
