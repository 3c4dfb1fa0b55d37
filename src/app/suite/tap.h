#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::app::suite {

// The Test Anything Protocol, version 13, as `prove` reads it: a line for each point, a YAML block of what was wrong
// behind one that is not ok, and how many there were at the end.
class Tap {
 public:
  // What stands in the YAML block, in its order; a value of several lines becomes a block of lines.
  using Details = std::vector<std::pair<std::string, std::string>>;

  // Begins with the version. `out` outlives it; each line is flushed.
  explicit Tap(std::FILE* out);

  void ok(std::string_view name);
  void skip(std::string_view name, std::string_view why);
  void not_ok(std::string_view name, const Details& details);
  void comment(std::string_view text);  // of any number of lines
  void bail_out(std::string_view why);  // nothing follows, no plan either
  void plan();                          // how many there were

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t failed() const { return failed_; }

 private:
  void write(std::string_view text);

  std::FILE* out_;
  std::size_t count_ = 0;
  std::size_t failed_ = 0;
};

// A description: no line breaks, and no # that would begin a directive.
[[nodiscard]] std::string tap_description(std::string_view text);
// `key: value` and a line break, or a block, indented by two.
[[nodiscard]] std::string yaml_entry(std::string_view key, std::string_view value);

}  // namespace sluice::app::suite
