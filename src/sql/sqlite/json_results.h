#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::sql::sqlite {

// Which of a statement's `count` result columns are JSON, according to their expressions: a call of json(),
// json_object(), json_group_array() and the like, `a -> b`, coalesce() of such an expression, or a subquery that
// returns one. SQLite's subtypes would say the same, but a sorter, a view or RETURNING loses them. Only the text is
// examined, not the definition of a view or a WITH table that it names.
[[nodiscard]] std::vector<bool> json_results(std::string_view statement, std::size_t count);

}  // namespace sluice::sql::sqlite
