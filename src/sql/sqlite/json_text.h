#pragma once

#include <string_view>

namespace sluice::sql::sqlite {

inline constexpr unsigned json_max_depth = 512;

// Whether `text`, which is valid UTF-8, is one JSON value (RFC 8259) nested at most json_max_depth deep. Allocates no
// memory. A column declared JSON may hold any value, so each value is checked before it is written unquoted.
[[nodiscard]] bool is_json(std::string_view text);

}  // namespace sluice::sql::sqlite
