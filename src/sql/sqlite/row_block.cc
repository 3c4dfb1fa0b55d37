#include "sql/sqlite/row_block.h"

namespace sluice::sql::sqlite {

void RowBlock::clear() {
  rows_ = 0;
  fields_.clear();
  bytes_.clear();
  if (bytes_.capacity() > kept_bytes) bytes_.release();
  if (fields_.capacity() * sizeof(Field) > 4 * kept_bytes) std::vector<Field>().swap(fields_);
}

void RowBlock::grow(std::size_t bytes) {
  const auto before = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const std::size_t size = bytes_.size();
  (void)bytes_.reserve(bytes);
  if (size == 0) return;
  // The fields' pointers move with the bytes; static values are elsewhere.
  for (Field& field : fields_) {
    const auto offset = reinterpret_cast<std::uintptr_t>(field.data) - before;
    if (offset < size) field.data = bytes_.data() + offset;
  }
}

}  // namespace sluice::sql::sqlite
