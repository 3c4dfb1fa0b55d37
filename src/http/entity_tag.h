#pragma once

#include <span>
#include <string_view>

#include "http/response.h"

namespace sluice::http {

// Takes an entity-tag and its comma off the front of a list, as If-Match and If-None-Match have it: `"7"`, `W/"7"`;
// empty where there is none left. What is no entity-tag is passed over up to the next comma. Commas may be inside of a
// tag, quotes may not (RFC 9110, 8.8.3).
[[nodiscard]] std::string_view next_entity_tag(std::string_view& list);

// Whether If-Match or If-None-Match, as `name` says, has `*` beside another member, which is no condition (RFC 9110,
// 13.1.1). Several fields of the name are one list.
[[nodiscard]] bool mixes_any(std::span<const Field> fields, std::string_view name);

// 400, to a request with such a field.
[[nodiscard]] Response refuse_mixed_any();

}  // namespace sluice::http
