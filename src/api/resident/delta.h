#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/since.h"
#include "api/resident/table.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// The columns with which a statement reports changes.
struct ChangesShape {
  std::string version;  // a column of both statements; later changes have greater values
  std::string deleted;  // a column of the changes; empty if rows are never deleted
};

// Checks the columns of a statement for `changes` against a table of `columns`. Returns what is wrong, worded as an
// error of the configuration, or an empty string. Precondition: check_shape() accepts the table.
[[nodiscard]] std::string check_changes(const TableShape& shape, const ChangesShape& changes_shape,
                                        std::span<const sql::Column> columns, std::span<const sql::Column> changes);

// Makes the next version of a table from the previous version and the rows that are new or changed since. Unchanged
// rows and their index entries are copied. They are neither encoded nor sorted again.
//
// A changed row keeps the place of the old row with its key. A new row goes to the place of its key if the rows are
// sorted by key, ascending or descending, and otherwise to the end. The order is determined once: from the first
// version with two or more rows that gets changes. Later versions inherit it, so it stays known when all rows but one
// are deleted. A table with fewer rows at first counts as ascending. A key that is reported both as a row and as
// deleted is kept.
class Delta {
 public:
  // Precondition: check_changes() accepts these columns.
  Delta(const TableShape& shape, const ChangesShape& changes_shape, std::shared_ptr<const Table> old,
        std::span<const sql::Column> changes);

  // Adds a block of the changes and notes its versions in `since`. Errors are sentences for the log.
  [[nodiscard]] std::expected<void, std::string> add(const sql::Block& block, Since& since);
  // Builds the new version. May take long and may run on any thread. Call it once. Returns the previous version if
  // nothing has changed.
  [[nodiscard]] std::expected<std::shared_ptr<const Table>, std::string> apply();

 private:
  struct Edit;
  [[nodiscard]] std::vector<Edit> find_edits(const Table& changed, KeyOrder order) const;

  const TableShape shape_;
  const std::shared_ptr<const Table> old_;
  TableBuilder changed_;
  std::vector<std::size_t> places_;  // the place of each of the table's columns in the changes
  std::size_t version_ = 0;          // place of the version column in the changes
  std::optional<std::size_t> deleted_;
  std::vector<std::uint32_t> gone_;  // deleted rows of the old table
  std::vector<sql::Field> fields_;
  std::string scratch_;
};

}  // namespace sluice::api::resident
