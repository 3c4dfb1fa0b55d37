#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::http::compress {

// Media types by pattern: "text/csv", "text/*" (all of text) and "application/*+json" (all with that suffix).
class MediaTypes {
 public:
  // The patterns have passed is_pattern().
  explicit MediaTypes(std::span<const std::string> patterns);

  // A Content-Type's value; its parameters are passed over.
  [[nodiscard]] bool matches(std::string_view content_type) const;

  [[nodiscard]] static bool is_pattern(std::string_view text);

 private:
  struct Pattern {
    std::string prefix;  // the type with its slash, or for one type alone all of it
    std::string suffix;  // "+json"
    bool whole = false;  // one type alone
  };
  std::vector<Pattern> patterns_;
};

}  // namespace sluice::http::compress
