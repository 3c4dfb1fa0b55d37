#pragma once

#include <string>
#include <string_view>

namespace sluice::sql {

// Why the database refuses a row, for whoever sent it: by its SQLSTATE, with the name of the constraint where there is
// one (empty: none is known).
[[nodiscard]] std::string refusal_text(std::string_view sqlstate, std::string_view constraint);

// Whether an SQLSTATE is of what a row holds, so that it makes sense to ask which one it is.
[[nodiscard]] bool is_of_a_row(std::string_view sqlstate);

}  // namespace sluice::sql
