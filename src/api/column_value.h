#pragma once

#include <expected>
#include <string_view>

#include "api/body/row_reader.h"
#include "sql/column_kind.h"
#include "sql/database.h"

namespace sluice::api {

// What a value of a request, which is not missing and no null, becomes for a column: what an answer shows of a column
// is what makes it again. An error says why it cannot: it "must be ...".
[[nodiscard]] std::expected<sql::Argument, std::string_view> column_value(sql::ColumnKind kind, const Value& value);

}  // namespace sluice::api
