#pragma once

#include <expected>
#include <string_view>

#include "api/body/row_reader.h"
#include "sql/column_kind.h"
#include "sql/database.h"

namespace sluice::api {

struct ColumnUse {
  bool is_stored = true;      // the column stores the value; false if it is only compared with it
  bool allows_texts = false;  // a text that is not a value of the column's type stays a text
};

// Converts a request's value, which is neither missing nor null, to an argument for a column. It accepts the form in
// which answers show the column's values. An error completes the sentence "must be ...".
[[nodiscard]] std::expected<sql::Argument, std::string_view> column_value(sql::ColumnKind kind, const Value& value,
                                                                          ColumnUse use = {});

}  // namespace sluice::api
