#pragma once

#include <expected>
#include <string_view>

#include "api/body/row_reader.h"
#include "sql/column_kind.h"
#include "sql/database.h"

namespace sluice::api {

struct ColumnUse {
  bool is_stored = true;      // the statement stores the value in the column; false if it only compares the two
  bool allows_texts = false;  // a text that is not a value of the column's type is bound as text
};

// Converts a request's value to an argument for a column. Accepts the notation in which answers show the column's
// values. An error says what the value must be: "must be JSON". Precondition: the value is neither missing nor null.
[[nodiscard]] std::expected<sql::Argument, std::string_view> column_value(sql::ColumnKind kind, const Value& value,
                                                                          ColumnUse use = {});

}  // namespace sluice::api
