#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/rows.h"

namespace sluice::api::resident {

// The members of a row's JSON object as the encoder writes it, without blanks, in column order: `{"id":1,"name":"a"}`.
class RowText {
 public:
  explicit RowText(std::span<const sql::Column> columns);

  // Cuts a row into the JSON texts of its values; `values` has one element per column. Precondition: the encoder wrote
  // it.
  void cut(std::string_view row, std::span<std::string_view> values) const;
  // The text before the value of a column: `"name":`.
  [[nodiscard]] std::string_view name(std::size_t column) const { return names_[column]; }
  [[nodiscard]] std::size_t columns() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

// The size of the JSON value at the beginning of `text`, including blanks around it.
[[nodiscard]] std::size_t value_size(std::string_view text);
[[nodiscard]] std::string_view trimmed(std::string_view text);
// Appends the unescaped content of a JSON string. Precondition: `inside` is a valid JSON string without its quotes.
void append_unescaped(std::string_view inside, std::string& out);

}  // namespace sluice::api::resident
