#pragma once

#include <string>
#include <string_view>

namespace sluice::sql {

// Explains to the client why the database refuses a row, from the SQLSTATE and the constraint's name (empty: unknown).
[[nodiscard]] std::string refusal_text(std::string_view sqlstate, std::string_view constraint);

// Whether an SQLSTATE is about a row's values, so that it makes sense to search for the row.
[[nodiscard]] bool is_of_a_row(std::string_view sqlstate);

}  // namespace sluice::sql
