#pragma once

#include <span>
#include <string_view>

#include "http/response.h"

namespace sluice::http {

// Removes the first entity-tag from the list of an If-Match or If-None-Match field and returns it: `"7"`, `W/"7"`.
// Returns an empty view if none is left. Skips elements that are not entity-tags. A tag may contain commas but no
// quotes (RFC 9110, 8.8.3).
[[nodiscard]] std::string_view next_entity_tag(std::string_view& list);

// Whether the field `name` (If-Match or If-None-Match) has `*` beside another member, which is invalid (RFC 9110,
// 13.1.1). Several fields with this name form one list.
[[nodiscard]] bool mixes_any(std::span<const Field> fields, std::string_view name);

// The 400 response to a request for which mixes_any() is true.
[[nodiscard]] Response refuse_mixed_any();

}  // namespace sluice::http
