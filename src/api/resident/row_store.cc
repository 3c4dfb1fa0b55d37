#include "api/resident/row_store.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace sluice::api::resident {
namespace {

constexpr std::size_t page = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) & ~(page - 1); }

}  // namespace

RowStore::~RowStore() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

void RowStore::swap(RowStore& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(count_, other.count_);
  starts_.swap(other.starts_);
  bases_.swap(other.bases_);
}

void RowStore::append(std::string_view row) {
  SLUICE_ASSERT(row.size() < row_limit);
  if (capacity_ - size_ < row.size()) grow(size_ + row.size());
  if ((count_ & group_mask) == 0) bases_.push_back(size_);
  const std::size_t start = size_ - bases_.back();
  if (start >= row_limit * 2) throw std::bad_alloc();
  starts_.push_back(static_cast<std::uint32_t>(start));
  if (!row.empty()) std::memcpy(data_ + size_, row.data(), row.size());
  size_ += row.size();
  ++count_;
}

void RowStore::grow(std::size_t wanted) {
  const std::size_t capacity = whole_pages(std::max({wanted, capacity_ + capacity_ / 2, std::size_t{64} * 1024}));
  void* grown = data_ == nullptr ? ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                 : ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(grown);
  capacity_ = capacity;
}

void RowStore::trim() {
  starts_.shrink_to_fit();
  bases_.shrink_to_fit();
  const std::size_t needed = whole_pages(size_);
  if (needed == capacity_) return;
  if (needed == 0) {
    ::munmap(data_, capacity_);
    data_ = nullptr;
  } else if (::mremap(data_, capacity_, needed, 0) == MAP_FAILED) {
    return;  // keeps its size
  }
  capacity_ = needed;
}

}  // namespace sluice::api::resident
