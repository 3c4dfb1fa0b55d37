#include "http/shared_spans.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/copy.h"
#include "core/slab.h"

namespace sluice::http {
namespace {

constexpr std::size_t fewest_pieces = 8;

}  // namespace

SharedSpans::SharedSpans(std::shared_ptr<const void> owner, std::size_t expected) : owner_(std::move(owner)) {
  if (expected != 0) grow(expected);
}

SharedSpans::SharedSpans(SharedSpans&& other) noexcept
    : owner_(std::move(other.owner_)),
      pieces_(std::exchange(other.pieces_, nullptr)),
      count_(std::exchange(other.count_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      size_(std::exchange(other.size_, 0)) {}

SharedSpans& SharedSpans::operator=(SharedSpans&& other) noexcept {
  if (this == &other) return *this;
  release();
  owner_ = std::move(other.owner_);
  pieces_ = std::exchange(other.pieces_, nullptr);
  count_ = std::exchange(other.count_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

SharedSpans::~SharedSpans() { release(); }

void SharedSpans::grow(std::size_t least) {
  const std::size_t capacity = std::max({least, std::size_t{capacity_} * 2, fewest_pieces});
  SLUICE_ASSERT(capacity <= std::numeric_limits<std::uint32_t>::max());
  auto* const grown = static_cast<std::string_view*>(core::slab_allocate(capacity * sizeof(std::string_view)));
  std::uninitialized_copy_n(pieces_, count_, grown);
  release();
  pieces_ = grown;
  capacity_ = static_cast<std::uint32_t>(capacity);
}

void SharedSpans::release() noexcept {
  if (pieces_ != nullptr) core::slab_free(pieces_, std::size_t{capacity_} * sizeof(std::string_view));
}

std::size_t SpanReader::copy(char* to, std::size_t most) {
  char* const begin = to;
  char* const end = to + most;
  while (to != end && next_ != end_) {
    const std::string_view piece = front().substr(0, static_cast<std::size_t>(end - to));
    to = copy_short(to, piece);
    skip(piece.size());
  }
  return static_cast<std::size_t>(to - begin);
}

}  // namespace sluice::http
