#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/list/statement.h"
#include "sql/database.h"
#include "sql/rows.h"

// Cursors of pages: the values of a row's order, as text without meaning for clients.
namespace sluice::api::list {

// The value of a field, to be compared with its column again.
[[nodiscard]] CursorValue cursor_value(const sql::Field& field, sql::Dialect dialect);

// `digest`: of the list that the cursor belongs to.
[[nodiscard]] std::string write_cursor(std::uint64_t digest, std::span<const CursorValue> values);
// Nothing if the text is not such a cursor of that list, with `count` values.
[[nodiscard]] std::optional<std::vector<CursorValue>> read_cursor(std::string_view text, std::uint64_t digest,
                                                                  std::size_t count, sql::Dialect dialect);

}  // namespace sluice::api::list
