#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/proxy/options.h"

namespace re2 {
class RE2;
}

namespace sluice::gateway {

// How a [[route]] changes a request's path before it is forwarded: a prefix is removed, or a regular expression
// rewrites the path. Paths are as sent to servers: normalised and encoded, without the query string.
class PathChange {
 public:
  // Nothing if the options do not change the path. An error says what is wrong with them.
  [[nodiscard]] static std::expected<std::unique_ptr<const PathChange>, std::string> make(const RouteOptions& options);
  PathChange(const PathChange&) = delete;
  ~PathChange();

  // Returns false if the result would be empty or not normalised (`/../x`), or would begin with two slashes, encoded or
  // not.
  [[nodiscard]] bool apply(std::string& path) const;
  // The prefix that is removed; may be empty.
  [[nodiscard]] std::string_view prefix() const { return strip_; }
  // Whether the segments at the beginning of a path are those of the prefix. A query string may follow the path.
  [[nodiscard]] bool is_below_prefix(std::string_view path) const;

 private:
  PathChange();
  // The size of the prefix as `path` spells it; npos if it does not begin with these characters.
  [[nodiscard]] std::size_t find_end(std::string_view path) const;

  std::string strip_;
  std::unique_ptr<const re2::RE2> match_;
  std::string to_;
};

}  // namespace sluice::gateway
