#include "app/config/path_pattern.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/config/source.h"

namespace sluice::app::config {
namespace {

bool is_name(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, [&](char c) { return letter(c) || digit(c); });
}

}  // namespace

PathPattern parse_path_pattern(std::string_view text) {
  PathPattern pattern;
  auto refuse = [&](std::size_t byte, std::string message, std::string hint = {}) {
    pattern.wrong = std::move(message);
    pattern.hint = std::move(hint);
    pattern.wrong_at = count_characters(text.substr(0, byte)) + 1;
    return pattern;
  };

  if (!text.starts_with('/')) return refuse(0, "a path must begin with \"/\"");
  std::size_t begin = 1;
  for (;;) {
    std::size_t end = std::min(text.find('/', begin), text.size());
    std::string_view segment = text.substr(begin, end - begin);
    const bool last = end == text.size();

    if (segment.empty() && !last) return refuse(begin, "a path must not have an empty segment");
    if (segment.empty() && text.size() > 1) return refuse(begin - 1, "a path must not end with \"/\"");
    if (segment == "." || segment == "..") return refuse(begin, "\".\" and \"..\" never arrive in a path");

    if (segment.starts_with('{')) {
      if (!segment.ends_with('}')) {
        std::size_t close = segment.find('}');
        if (close == segment.npos) return refuse(begin, "\"{\" without \"}\"");
        return refuse(begin + close + 1, "a parameter must be a whole segment");
      }
      std::string_view inside = segment.substr(1, segment.size() - 2);
      PathPattern::Parameter parameter;
      if (inside.ends_with("...")) {
        parameter.rest = true;
        inside.remove_suffix(3);
      } else if (std::size_t colon = inside.find(':'); colon != inside.npos) {
        if (inside.substr(colon + 1) != "int") {
          return refuse(begin + 1 + colon + 1, "the only type of a path parameter is \"int\"");
        }
        parameter.integer = true;
        inside = inside.substr(0, colon);
      }
      if (!is_name(inside)) {
        return refuse(begin + 1, "a parameter needs a name of letters, digits and \"_\"",
                      "write {name}, {name:int} or {name...}");
      }
      if (parameter.rest && !last) return refuse(begin, fmt::format("{{{}...}} must be the last segment", inside));
      for (const auto& other : pattern.parameters) {
        if (other.name == inside) return refuse(begin, fmt::format("the path has {{{}}} twice", inside));
      }
      parameter.name = inside;
      pattern.shape += parameter.rest ? "/{...}" : parameter.integer ? "/{:int}" : "/{}";
      pattern.parameters.push_back(std::move(parameter));
    } else {
      for (std::size_t i = 0; i < segment.size(); ++i) {
        auto byte = static_cast<unsigned char>(segment[i]);
        if (byte == '{' || byte == '}') return refuse(begin + i, "a parameter must be a whole segment");
        if (byte == '?' || byte == '#') return refuse(begin + i, "a path ends before the query string and \"#\"");
        if (byte == '%') return refuse(begin + i, "paths are compared decoded", "write the character itself");
        if (byte <= 0x20 || byte == 0x7f) return refuse(begin + i, "a path must not have spaces or control characters");
      }
      pattern.shape += '/';
      pattern.shape += segment;
    }
    if (last) return pattern;
    begin = end + 1;
  }
}

}  // namespace sluice::app::config
