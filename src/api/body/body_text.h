#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/buffer.h"

namespace sluice::api {

// The bytes of a body that have been received and not yet used, and their line numbers. Search loops may read `padding`
// bytes past the end. The first of these bytes is 0, so a loop that stops at 0 needs no check for the end.
class BodyText {
 public:
  static constexpr std::size_t padding = 64;

  BodyText() { feed({}); }

  void feed(std::string_view bytes) {
    advance_mark(begin());
    buffer_.consume(used_);
    used_ = mark_ = 0;
    char* const to = buffer_.reserve(bytes.size() + padding);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    std::memset(to + bytes.size(), 0, padding);
    buffer_.commit(bytes.size());
  }

  [[nodiscard]] char* begin() { return buffer_.data() + used_; }
  [[nodiscard]] char* end() { return buffer_.data() + buffer_.size(); }
  // The used bytes stay valid until the next feed().
  void use_to(const char* at) { used_ = static_cast<std::size_t>(at - buffer_.data()); }

  [[nodiscard]] std::size_t capacity() const { return buffer_.capacity(); }
  // The line of a position. Positions must not decrease from call to call.
  [[nodiscard]] std::uint64_t line_of(const char* at) {
    advance_mark(at);
    return line_;
  }

 private:
  void advance_mark(const char* to) {
    const char* const mark = buffer_.data() + mark_;
    if (to <= mark) return;
    line_ += static_cast<std::uint64_t>(std::count(mark, to, '\n'));
    mark_ = static_cast<std::size_t>(to - buffer_.data());
  }

  Buffer buffer_;
  std::size_t used_ = 0;
  std::size_t mark_ = 0;  // line_ is the line of this offset
  std::uint64_t line_ = 1;
};

}  // namespace sluice::api
