#pragma once

#include <string_view>

namespace sluice::sql::sqlite {

inline constexpr unsigned json_max_depth = 512;

// Whether `text`, which is valid UTF-8, is one JSON value (RFC 8259) nested at most json_max_depth deep. It takes no
// memory, whatever the size: a column declared JSON may hold anything, and each of its values is checked before it
// goes out unquoted.
[[nodiscard]] bool is_json(std::string_view text);

}  // namespace sluice::sql::sqlite
