#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/uio.h>

#include "base/buffer.h"
#include "msg/frame.h"
#include "msg/payload.h"

namespace sluice::msg {

// The size of the first of these frames, all of which are whole.
[[nodiscard]] inline std::size_t first_frame_size(std::string_view frames) {
  std::size_t body = 0;
  for (const char byte : frames.substr(6, 4)) body = body << 8 | static_cast<unsigned char>(byte);
  return ((frames[1] & correlated_flag) != 0 ? longest_header_size : header_size) + body;
}

// Frames that wait to be written, in order. Frames to one receiver, and small shared ones, are copied into `bytes`;
// larger shared ones are kept by reference, between two of these bytes.
class Outbox {
 public:
  // Up to this size, copying a payload costs less than one more part of a gathered write. It also takes memory of each
  // receiver, which a part does not.
  static constexpr std::size_t copied_bytes = 256;

  // Shared frames of up to `most_copied` bytes are copied.
  explicit Outbox(std::size_t most_copied = copied_bytes) : most_copied_(most_copied) {}
  Outbox(Outbox&& other) noexcept
      : most_copied_(other.most_copied_),
        bytes_(std::move(other.bytes_)),
        shared_(std::move(other.shared_)),
        size_(std::exchange(other.size_, 0)) {
    other.shared_.clear();
  }
  Outbox& operator=(Outbox&&) = delete;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }  // in bytes
  [[nodiscard]] std::size_t memory() const { return bytes_.size() + shared_.size() * sizeof(Shared); }
  // The memory of the copied frames. An owner may give an empty outbox a buffer with capacity, and take it back.
  [[nodiscard]] Buffer& bytes() { return bytes_; }

  void append(const Frame& frame) {
    const std::size_t before = bytes_.size();
    append_frame(bytes_, frame);
    size_ += bytes_.size() - before;
  }
  void append_error(const Frame& about, ErrorCode code, std::string_view text) {
    const std::size_t before = bytes_.size();
    msg::append_error(bytes_, about.id, about.correlation_id(), code, text);
    size_ += bytes_.size() - before;
  }
  [[nodiscard]] bool copies(const Buffer& payload) const { return payload.size() <= most_copied_; }
  void append(const Payload& payload) {
    if (copies(*payload)) {
      bytes_.append(payload->view());
    } else {
      if (shared_.empty()) shared_.reserve(16);
      shared_.push_back({bytes_.size(), payload});
    }
    size_ += payload->size();
  }

  // Where a walk through the outbox continues.
  struct Position {
    std::size_t bytes = 0;   // of `bytes`
    std::size_t shared = 0;  // index into `shared`
  };
  struct Part {
    std::string_view bytes;            // whole frames; empty: there are no more
    const Payload* payload = nullptr;  // set if they are one shared frame
  };
  // The next part; moves `at` behind it. Parts are valid until the outbox changes.
  [[nodiscard]] Part next(Position& at) const {
    const std::size_t end = at.shared < shared_.size() ? shared_[at.shared].before : bytes_.size();
    if (at.bytes < end) {
      const std::size_t begin = std::exchange(at.bytes, end);
      return {bytes_.view().substr(begin, end - begin)};
    }
    if (at.shared == shared_.size()) return {};
    const Payload& payload = shared_[at.shared++].payload;
    return {payload->view(), &payload};
  }
  // Fills `parts` with the next parts, and returns those that it has filled; empty: there are no more.
  [[nodiscard]] std::span<iovec> gather(Position& at, std::span<iovec> parts) const {
    std::size_t count = 0;
    while (count < parts.size()) {
      const Part part = next(at);
      if (part.bytes.empty()) break;
      parts[count++] = {const_cast<char*>(part.bytes.data()), part.bytes.size()};
    }
    return parts.first(count);
  }

 private:
  struct Shared {
    std::size_t before;  // how many bytes of `bytes_` precede it
    Payload payload;
  };

  const std::size_t most_copied_;
  Buffer bytes_;
  std::vector<Shared> shared_;
  std::size_t size_ = 0;
};

}  // namespace sluice::msg
