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

// What tells which rows have changed, and how.
struct ChangesShape {
  std::string version;  // a column of both statements: greater in what has changed later
  std::string deleted;  // a column of the changes; empty: no row ever goes
};

// What is wrong with a statement that gives `changes`, for a table of `columns`: in the words of an error of the
// configuration. Empty: nothing. Precondition: check_shape() has nothing to say of the table.
[[nodiscard]] std::string check_changes(const TableShape& shape, const ChangesShape& changes_shape,
                                        std::span<const sql::Column> columns, std::span<const sql::Column> changes);

// The next version of a table, made from the one before and the rows that are new or other since: what has not changed
// is copied, with what finds it, and neither encoded nor sorted again.
//
// A changed row stands where the one of its key stood. A new one stands where its key belongs if the rows are in
// ascending or descending order of their keys, and at the end otherwise. Which it is, is seen of the first version that
// changes come to and that has two rows or more, and handed on from there: a table that has lost all but one of its
// rows is still in the order of its query. What began with fewer counts as ascending. A key that comes as a row and as
// deleted too is there.
class Delta {
 public:
  // Precondition: check_changes() has nothing to say of the table's columns and these.
  Delta(const TableShape& shape, const ChangesShape& changes_shape, std::shared_ptr<const Table> old,
        std::span<const sql::Column> changes);

  // A block of the changes, whose versions are noted. Errors are sentences for the log.
  [[nodiscard]] std::expected<void, std::string> add(const sql::Block& block, Since& since);
  // Takes its time, on any thread. Once. The table before, where nothing is other than it was.
  [[nodiscard]] std::expected<std::shared_ptr<const Table>, std::string> apply();

 private:
  struct Edit;
  [[nodiscard]] std::vector<Edit> find_edits(const Table& changed, KeyOrder order) const;

  const TableShape shape_;
  const std::shared_ptr<const Table> old_;
  TableBuilder changed_;
  std::vector<std::size_t> places_;  // of the table's columns in the changes
  std::size_t version_ = 0;          // likewise
  std::optional<std::size_t> deleted_;
  std::vector<std::uint32_t> gone_;  // rows of the old table
  std::vector<sql::Field> fields_;
  std::string scratch_;
};

}  // namespace sluice::api::resident
