#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::http::compress {

// A set of media type patterns: "text/csv", "text/*" (all text types) and "application/*+json" (all with that suffix).
class MediaTypes {
 public:
  // Precondition: is_pattern() is true for all patterns.
  explicit MediaTypes(std::span<const std::string> patterns);

  // `content_type`: the value of a Content-Type field. Its parameters are ignored.
  [[nodiscard]] bool matches(std::string_view content_type) const;

  [[nodiscard]] static bool is_pattern(std::string_view text);

 private:
  struct Pattern {
    std::string prefix;  // the type with its slash; for a single media type, all of it
    std::string suffix;  // "+json"
    bool whole = false;  // a single media type
  };
  std::vector<Pattern> patterns_;
};

}  // namespace sluice::http::compress
