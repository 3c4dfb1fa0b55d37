#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.h"

namespace sluice {

// Bytes are appended at one end and consumed at the other, in one contiguous, growable block.
//
//   0 <= begin <= end <= capacity;   readable = [begin, end),   writable = [end, capacity)
//
// Views into the buffer are valid until the next call that may move the bytes: reserve(), append(), release(). An empty
// Buffer owns no memory, so an idle connection that calls release() needs none.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t capacity) { grow(capacity); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      swap(other);
    }
    return *this;
  }
  ~Buffer() { release(); }

  [[nodiscard]] char* data() { return data_ + begin_; }
  [[nodiscard]] const char* data() const { return data_ + begin_; }
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::string_view view() const { return {data_ + begin_, size()}; }

  // Makes room for at least `bytes` more and returns where to write them; commit() says how many were written.
  [[nodiscard]] char* reserve(std::size_t bytes) {
    if (capacity_ - end_ < bytes) [[unlikely]] make_room(bytes);
    return data_ + end_;
  }
  [[nodiscard]] std::size_t writable() const { return capacity_ - end_; }
  void commit(std::size_t bytes) {
    SLUICE_ASSERT(bytes <= writable());
    end_ += bytes;
  }

  void append(std::string_view bytes) {
    if (bytes.empty()) return;  // an empty view's data may be null, which memcpy does not take
    std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
    end_ += bytes.size();
  }
  void push_back(char byte) {
    *reserve(1) = byte;
    ++end_;
  }

  void consume(std::size_t bytes) {
    SLUICE_ASSERT(bytes <= size());
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  // Drops bytes from the end, until `new_size` readable bytes are left.
  void truncate(std::size_t new_size) {
    SLUICE_ASSERT(new_size <= size());
    end_ = begin_ + new_size;
  }
  void clear() { begin_ = end_ = 0; }
  void release();

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  void make_room(std::size_t bytes);
  void grow(std::size_t capacity);

  char* data_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace sluice
