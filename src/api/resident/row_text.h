#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/rows.h"

namespace sluice::api::resident {

// The members of a row's JSON object as the encoder writes it: `{"id":1,"name":"a"}`, without blanks, in the order of
// the columns.
class RowText {
 public:
  explicit RowText(std::span<const sql::Column> columns);

  // Cuts one row into the texts of its members' values, JSON as they stand; `values` has a place for each column. The
  // row is one that the encoder has written.
  void cut(std::string_view row, std::span<std::string_view> values) const;
  // What stands before the value of a column: `"name":`.
  [[nodiscard]] std::string_view name(std::size_t column) const { return names_[column]; }
  [[nodiscard]] std::size_t columns() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

// Where the JSON value that `text` begins with ends, blanks around it included.
[[nodiscard]] std::size_t value_size(std::string_view text);
// Without the blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);
// Appends the inside of a JSON string, unescaped. Precondition: it is one, without its quotes.
void append_unescaped(std::string_view inside, std::string& out);

}  // namespace sluice::api::resident
