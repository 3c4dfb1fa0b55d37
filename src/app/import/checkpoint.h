#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sql/staging.h"

namespace sluice::app::import {

// A hash of the values of rows, in order. It shows whether a file still begins with the same rows.
class RowsHash {
 public:
  void add(std::span<const sql::StagedValue> values);
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  void add(std::string_view bytes);
  std::uint64_t state_ = 0xCBF29CE484222325U;  // FNV-1a
};

// The progress of an import, stored next to its file as FILE.sluice-import. Written after each batch, removed at the
// end.
struct Checkpoint {
  std::string target;      // database, table, columns and key
  std::uint64_t rows = 0;  // number of rows in the database
  std::uint64_t hash = 0;  // RowsHash of these rows

  [[nodiscard]] std::string text() const;
  // Nothing if the text is not a checkpoint.
  [[nodiscard]] static std::optional<Checkpoint> parse(std::string_view text);

  // Nothing if there is no checkpoint. An error says what is wrong with the file.
  [[nodiscard]] static std::expected<std::optional<Checkpoint>, std::string> load(const std::string& path);
  // Writes the file atomically and syncs it to disk. An error says why that failed.
  [[nodiscard]] std::expected<void, std::string> save(const std::string& path) const;
};

}  // namespace sluice::app::import
