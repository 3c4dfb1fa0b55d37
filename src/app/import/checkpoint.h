#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sql/staging.h"

namespace sluice::app::import {

// The values of rows, in their order, as one number: whether a file begins with the same rows as before.
class RowsHash {
 public:
  void add(std::span<const sql::StagedValue> values);
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  void add(std::string_view bytes);
  std::uint64_t state_ = 0xCBF29CE484222325U;  // FNV-1a
};

// How far an import has come, in a file beside its own: FILE.sluice-import. Written after each batch, removed at the
// end.
struct Checkpoint {
  std::string target;      // of what: database, table, columns, key
  std::uint64_t rows = 0;  // that are in the database
  std::uint64_t hash = 0;  // RowsHash of them

  [[nodiscard]] std::string text() const;
  // Nothing: that is no checkpoint.
  [[nodiscard]] static std::optional<Checkpoint> parse(std::string_view text);

  // Nothing: there is none. An error says what is wrong with it.
  [[nodiscard]] static std::expected<std::optional<Checkpoint>, std::string> load(const std::string& path);
  // Whole or not at all, and on the disk. An error says why not.
  [[nodiscard]] std::expected<void, std::string> save(const std::string& path) const;
};

}  // namespace sluice::app::import
