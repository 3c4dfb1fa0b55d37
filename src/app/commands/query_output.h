#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sluice::app {

// Standard output, or a file. A regular file is written under another name beside it, and gets its own name at the end.
// An error is an errno; 0: none.
class QueryOutput {
 public:
  // `stops` is called when a signal interrupts a write; if it returns true, the write fails with EINTR.
  explicit QueryOutput(std::function<bool()> stops) : stops_(std::move(stops)) {}
  QueryOutput(const QueryOutput&) = delete;
  ~QueryOutput();

  // An empty name means standard output.
  [[nodiscard]] int open(const std::string& name);
  [[nodiscard]] int write(std::string_view bytes);
  [[nodiscard]] int finish();
  void discard();  // removes an unfinished file
  [[nodiscard]] bool is_terminal() const;

 private:
  const std::function<bool()> stops_;
  int file_ = -1;
  std::string name_;  // of the file
  std::string part_;  // the name until the end; empty: nothing to rename
};

}  // namespace sluice::app
