#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::api::resident {

// A pattern of `like`: `*` stands for any characters, `\*` for an asterisk and `\\` for a backslash.
class Pattern {
 public:
  Pattern() = default;
  explicit Pattern(std::string_view text);

  [[nodiscard]] bool matches(std::string_view text) const;
  // Every text that matches begins with this.
  [[nodiscard]] const std::string& beginning() const { return pieces_.front(); }
  void set_beginning(std::string_view text) { pieces_.front() = text; }
  // Whether every text with this beginning matches.
  [[nodiscard]] bool is_beginning() const { return pieces_.size() == 2 && pieces_.back().empty(); }

 private:
  std::vector<std::string> pieces_;  // between the asterisks; none in a pattern that was made without a text
};

}  // namespace sluice::api::resident
