#include "http/compress/media_types.h"

#include <algorithm>

#include "http/compress/options.h"
#include "http/fields.h"

namespace sluice::http::compress {
namespace {

// A token (RFC 9110, 5.6.2) without '*' and '+', which are special in a pattern.
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'-.^_`|~").contains(c);
  });
}

}  // namespace

std::string Options::check_type(std::string_view text) {
  if (MediaTypes::is_pattern(text)) return {};
  return "must be a media type like text/csv, text/* or application/*+json";
}

bool MediaTypes::is_pattern(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || !is_name(text.substr(0, slash))) return false;
  std::string_view subtype = text.substr(slash + 1);
  if (subtype == "*") return true;
  if (subtype.starts_with("*+")) return is_name(subtype.substr(2));
  while (true) {  // "svg+xml"
    const auto plus = subtype.find('+');
    if (!is_name(subtype.substr(0, plus))) return false;
    if (plus == std::string_view::npos) return true;
    subtype.remove_prefix(plus + 1);
  }
}

MediaTypes::MediaTypes(std::span<const std::string> patterns) {
  for (const std::string& text : patterns) {
    const auto star = text.find('*');
    if (star == std::string::npos) {
      patterns_.push_back({.prefix = text, .suffix = {}, .whole = true});
    } else {
      patterns_.push_back({.prefix = text.substr(0, star), .suffix = text.substr(star + 1), .whole = false});
    }
  }
}

bool MediaTypes::matches(std::string_view content_type) const {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return std::ranges::any_of(patterns_, [&](const Pattern& pattern) {
    if (pattern.whole) return same_name(type, pattern.prefix);
    return type.size() > pattern.prefix.size() + pattern.suffix.size() &&
           same_name(type.substr(0, pattern.prefix.size()), pattern.prefix) &&
           same_name(type.substr(type.size() - pattern.suffix.size()), pattern.suffix);
  });
}

}  // namespace sluice::http::compress
