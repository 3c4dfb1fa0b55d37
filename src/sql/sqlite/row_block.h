#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "sql/rows.h"

namespace sluice::sql::sqlite {

// Rows copied from a statement, with the bytes that their fields point to. It uses ordinary memory, so that pool
// threads may fill it, and reuses that memory.
class RowBlock {
 public:
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  [[nodiscard]] Block view(std::span<const Column> columns, bool last) const { return {columns, fields_, rows_, last}; }

  // Removes the rows, and releases the memory of an unusually large block.
  void clear();

  // Returns space for one value, which add_written() then turns into a field.
  [[nodiscard]] char* reserve(std::size_t bytes) {
    if (bytes_.writable() < bytes) [[unlikely]]
      grow(bytes);
    return bytes_.reserve(bytes);
  }
  void add_written(std::size_t bytes, Form form) {
    fields_.push_back({bytes_.data() + bytes_.size(), static_cast<std::uint32_t>(bytes), form});
    bytes_.commit(bytes);
  }
  void add_copy(const char* data, std::size_t bytes, Form form) {
    std::memcpy(reserve(bytes), data, bytes);
    add_written(bytes, form);
  }
  // `data` is static.
  void add_static(const char* data, std::size_t bytes, Form form) {
    fields_.push_back({data, static_cast<std::uint32_t>(bytes), form});
  }
  void add_null() { fields_.emplace_back(); }
  void end_row() { ++rows_; }

 private:
  void grow(std::size_t bytes);

  static constexpr std::size_t kept_bytes = 128 * 1024;

  Buffer bytes_;
  std::vector<Field> fields_;
  std::size_t rows_ = 0;
};

}  // namespace sluice::sql::sqlite
