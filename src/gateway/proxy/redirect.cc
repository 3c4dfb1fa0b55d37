#include "gateway/proxy/redirect.h"

#include <algorithm>
#include <utility>

#include "http/target.h"

namespace sluice::gateway {
namespace {

// Where the path begins in a URL or in a path.
std::size_t path_of(std::string_view to) {
  if (to.starts_with('/')) return 0;
  return std::min(to.find_first_of("/?#", to.find("://") + 3), to.size());
}

// Returns the part of request.segments that corresponds to `value`, a part of the path. Encoded slashes are NULs in it.
std::string_view in_segments(std::string_view value, const http::Request& request) {
  const auto begin = value.data() - request.path.data();
  return value.empty() ? value : request.segments.substr(static_cast<std::size_t>(begin), value.size());
}

}  // namespace

std::string RedirectOptions::check_to(std::string_view text) {
  const std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  if (scheme != 0) {
    const std::string_view authority = text.substr(scheme, path_of(text) - scheme);
    if (authority.contains('{')) return "takes parameters behind the host alone";
    if (!http::is_authority(authority, http::PortIs::optional)) return "must have a host";
  } else if (!text.starts_with('/') || text.starts_with("//")) {
    return "must be a URL, as \"https://www.example.com/{rest}\" is, or a path that begins with \"/\"";
  }
  const bool is_visible = std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; });
  return is_visible ? "" : "takes visible ASCII: write other characters as %XX";
}

std::expected<Redirect, std::string> Redirect::make(const RedirectOptions& options,
                                                    const std::vector<std::string>& names) {
  Redirect made(static_cast<int>(options.status.value));
  std::string_view rest = options.to.value;
  made.has_query_ = rest.contains('?');
  for (;;) {
    const std::size_t open = rest.find('{');
    if (open == rest.npos) break;
    const std::size_t close = rest.find('}', open);
    if (close == rest.npos) return std::unexpected("a \"{\" without its \"}\"");
    const std::string_view name = rest.substr(open + 1, close - open - 1);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::unexpected("there is no {" + std::string(name) + "} in the route's path");
    made.parts_.push_back({std::string(rest.substr(0, open)), static_cast<std::size_t>(found - names.begin())});
    rest.remove_prefix(close + 1);
  }
  made.parts_.push_back({std::string(rest)});
  return made;
}

core::Async<http::Response> Redirect::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  std::string location;
  for (const Part& part : parts_) {
    location += part.text;
    if (part.parameter == none) continue;
    const std::string_view value = request.path_values[part.parameter];
    if (location.find_first_of("?#") != location.npos) {
      http::append_escaped(location, value);  // so that it stays a single value
    } else {
      http::append_path(location, in_segments(value, request));
    }
  }
  const std::size_t path = path_of(location);
  const std::string_view target = std::string_view(location).substr(path);
  if (target.starts_with("//") || (!target.empty() && http::has_dot_segment(target))) {
    return http::problem(400, "The path would lead out of the place that it is redirected to.");
  }
  if (!has_query_ && !request.query.empty()) {
    const std::size_t fragment = std::min(location.find('#'), location.size());
    location.insert(fragment, "?" + std::string(request.query));
  }
  http::Response response;
  response.status = status_;
  response.fields.add_owned("Location", std::move(location));
  return response;
}

}  // namespace sluice::gateway
