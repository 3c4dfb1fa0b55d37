#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::app::suite {

// The Test Anything Protocol, version 13, as `prove` reads it: a line for each test point, a YAML block after each one
// that is not ok, and the plan (the number of points) at the end.
class Tap {
 public:
  // The entries of the YAML block, in order. A value of several lines becomes a block of lines.
  using Details = std::vector<std::pair<std::string, std::string>>;

  // Writes the version line. `out` outlives this object; each line is flushed.
  explicit Tap(std::FILE* out);

  void ok(std::string_view name);
  void skip(std::string_view name, std::string_view why);
  void not_ok(std::string_view name, const Details& details);
  void comment(std::string_view text);  // one or more lines
  void bail_out(std::string_view why);  // must be the last call; there is no plan then
  void plan();                          // writes the number of points

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t failed() const { return failed_; }

 private:
  void write(std::string_view text);

  std::FILE* out_;
  std::size_t count_ = 0;
  std::size_t failed_ = 0;
};

// A test description without line breaks and without a # that would begin a directive.
[[nodiscard]] std::string tap_description(std::string_view text);
// `key: value` and a line break, or a block; indented by two spaces.
[[nodiscard]] std::string yaml_entry(std::string_view key, std::string_view value);

}  // namespace sluice::app::suite
