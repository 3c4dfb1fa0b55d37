#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::sql::sqlite {

// Which of a statement's `count` result columns are JSON by their expression: a call of json(), json_object(),
// json_group_array() and the like, `a -> b`, coalesce() of one, and a subquery that returns one. SQLite's subtype says
// the same only as long as no sorter, view or RETURNING is between. It is asked of the text: what a view or a WITH
// names is not looked into.
[[nodiscard]] std::vector<bool> json_results(std::string_view statement, std::size_t count);

}  // namespace sluice::sql::sqlite
