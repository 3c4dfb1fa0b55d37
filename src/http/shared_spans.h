#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "base/buffer.h"

namespace sluice::http {

// Bytes in many pieces that many may send at once and nobody changes; `owner` keeps them alive. The list itself belongs
// to one answer and lives in its core's slab: it is made and destroyed on the same thread. No piece is empty.
class SharedSpans {
 public:
  // `expected`: how many pieces there is to be room for at once.
  explicit SharedSpans(std::shared_ptr<const void> owner, std::size_t expected = 0);
  SharedSpans(SharedSpans&& other) noexcept;
  SharedSpans& operator=(SharedSpans&& other) noexcept;
  ~SharedSpans();

  // An empty piece adds nothing, and one that lies behind the last makes that one longer.
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
  [[nodiscard]] std::uint64_t size() const { return size_; }  // of all of them, in bytes
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

// Goes through pieces once, from the first to the last. They outlive it.
class SpanReader {
 public:
  SpanReader() = default;
  explicit SpanReader(std::span<const std::string_view> pieces)
      : next_(pieces.data()), end_(pieces.data() + pieces.size()) {}

  [[nodiscard]] bool at_end() const { return next_ == end_; }
  // What is left of the piece that is next. Not at the end.
  [[nodiscard]] std::string_view front() const {
    SLUICE_ASSERT(!at_end());
    return next_->substr(taken_);
  }
  // Passes so many bytes of it.
  void skip(std::size_t bytes) {
    taken_ += bytes;
    SLUICE_ASSERT(taken_ <= next_->size());
    if (taken_ != next_->size()) return;
    ++next_;
    taken_ = 0;
  }
  // The next bytes, up to `most`; how many there were: fewer only at the end.
  std::size_t copy(char* to, std::size_t most);

 private:
  const std::string_view* next_ = nullptr;
  const std::string_view* end_ = nullptr;
  std::size_t taken_ = 0;  // of *next_, and less than it has
};

}  // namespace sluice::http
