#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/buffer.h"

namespace sluice::http::h2 {

// Encodes the response fields of one connection with HPACK (RFC 7541). Responses repeat most fields, so the lookup in
// the dynamic table must be fast: it uses one hash of name and value.
//
// Strings are not Huffman-coded: that would save a quarter of strings sent once, but take longer than all other work.
// Fields that describe one file, and therefore differ in most responses, enter the table when they occur for the second
// time.
class FieldEncoder {
 public:
  static constexpr std::size_t most_table_bytes = 4096;  // HPACK's default

  FieldEncoder() = default;
  FieldEncoder(const FieldEncoder&) = delete;
  ~FieldEncoder() { evict_to(0); }

  // Appends a field's representation. `name` is a token, in any case.
  void add(Buffer& out, std::string_view name, std::string_view value);
  void add_status(Buffer& out, int status);  // three digits
  // If false, added fields neither refer to the dynamic table nor change it.
  void use_table(bool use) { uses_table_ = use; }
  // Sets the size of the dynamic table. The caller must write the size update into the header block.
  void resize(std::size_t bytes);

  [[nodiscard]] std::size_t table_bytes() const { return bytes_; }

 private:
  static constexpr std::size_t entry_overhead = 32;  // RFC 7541, 4.1
  static constexpr std::size_t most_entries = 128;   // enough for 4096 bytes in entries of 33 bytes
  static_assert(most_entries >= most_table_bytes / (entry_overhead + 1));

  struct Entry {
    char* text;  // the name in lower case, then the value
    std::uint16_t name_size;
    std::uint16_t value_size;
  };

  [[nodiscard]] std::size_t find(std::uint64_t hash, std::string_view name, std::string_view value) const;
  [[nodiscard]] bool is_worth_an_entry(std::uint64_t hash, unsigned known_name, std::size_t size);
  void insert(std::uint64_t hash, std::string_view name, std::string_view value);
  void evict_to(std::size_t bytes);

  // A ring buffer: entry n is at index n % most_entries; oldest_ <= n < end_.
  std::array<std::uint32_t, most_entries> hashes_;
  std::array<Entry, most_entries> entries_;
  std::size_t oldest_ = 0;
  std::size_t end_ = 0;
  std::size_t bytes_ = 0;
  std::size_t most_bytes_ = most_table_bytes;
  bool uses_table_ = true;
  std::array<std::uint16_t, 64> seen_once_{};  // parts of hashes
};

}  // namespace sluice::http::h2
