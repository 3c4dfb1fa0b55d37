#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "base/buffer.h"

namespace sluice::http {

// Immutable bytes in many pieces that several responses may send at once. `owner` keeps them alive. The list of pieces
// belongs to one response and lives in its core's slab: the same thread must create and destroy it. No piece is empty.
class SharedSpans {
 public:
  // `expected`: number of pieces to allocate room for in advance.
  explicit SharedSpans(std::shared_ptr<const void> owner, std::size_t expected = 0);
  SharedSpans(SharedSpans&& other) noexcept;
  SharedSpans& operator=(SharedSpans&& other) noexcept;
  ~SharedSpans();

  // An empty piece adds nothing. A piece that directly follows the last one in memory extends it.
  void add(std::string_view piece) {
    if (piece.empty()) return;
    if (count_ != 0 && pieces_[count_ - 1].data() + pieces_[count_ - 1].size() == piece.data()) {
      pieces_[count_ - 1] = {pieces_[count_ - 1].data(), pieces_[count_ - 1].size() + piece.size()};
      size_ += piece.size();
      return;
    }
    if (count_ == capacity_) [[unlikely]]
      grow(std::size_t{count_} + 1);
    pieces_[count_++] = piece;
    size_ += piece.size();
  }

  [[nodiscard]] std::span<const std::string_view> pieces() const { return {pieces_, count_}; }
  [[nodiscard]] std::uint64_t size() const { return size_; }  // of all pieces, in bytes
  [[nodiscard]] const void* owner() const { return owner_.get(); }

 private:
  void grow(std::size_t least);
  void release() noexcept;

  std::shared_ptr<const void> owner_;
  std::string_view* pieces_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint64_t size_ = 0;
};

// Reads pieces once, from the first to the last. The pieces outlive the reader.
class SpanReader {
 public:
  SpanReader() = default;
  explicit SpanReader(std::span<const std::string_view> pieces)
      : next_(pieces.data()), end_(pieces.data() + pieces.size()) {}

  [[nodiscard]] bool at_end() const { return next_ == end_; }
  // The unread part of the current piece. Precondition: !at_end().
  [[nodiscard]] std::string_view front() const {
    SLUICE_ASSERT(!at_end());
    return next_->substr(taken_);
  }
  // Skips this many bytes of the current piece.
  void skip(std::size_t bytes) {
    taken_ += bytes;
    SLUICE_ASSERT(taken_ <= next_->size());
    if (taken_ != next_->size()) return;
    ++next_;
    taken_ = 0;
  }
  // Copies up to `most` bytes and returns their number, which is less than `most` only at the end.
  std::size_t copy(char* to, std::size_t most);

 private:
  const std::string_view* next_ = nullptr;
  const std::string_view* end_ = nullptr;
  std::size_t taken_ = 0;  // bytes read of *next_; less than its size
};

}  // namespace sluice::http
