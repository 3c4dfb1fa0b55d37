#include "base/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace sluice {

void Buffer::release() {
  std::free(data_);
  data_ = nullptr;
  begin_ = end_ = capacity_ = 0;
}

void Buffer::make_room(std::size_t bytes) {
  const std::size_t used = size();
  // Moving the readable bytes to the front needs no new block. It is done only if it frees at least half of the block.
  // Otherwise a slow consumer would move the same bytes again and again.
  if (begin_ >= capacity_ / 2 && capacity_ - used >= bytes) {
    std::memmove(data_, data_ + begin_, used);
    begin_ = 0;
    end_ = used;
    return;
  }
  grow(std::max(used + bytes, capacity_ + capacity_ / 2));
}

void Buffer::grow(std::size_t capacity) {
  capacity = (std::max<std::size_t>(capacity, 256) + 63) & ~std::size_t{63};
  char* grown = static_cast<char*>(std::malloc(capacity));
  if (grown == nullptr) throw std::bad_alloc();
  const std::size_t used = size();
  if (used != 0) std::memcpy(grown, data_ + begin_, used);
  std::free(data_);
  data_ = grown;
  begin_ = 0;
  end_ = used;
  capacity_ = capacity;
}

}  // namespace sluice
