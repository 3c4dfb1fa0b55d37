#pragma once

#include <string_view>

namespace sluice::http {

// Takes an entity-tag and its comma off the front of a list, as If-Match and If-None-Match have it: `"7"`, `W/"7"`;
// empty where there is none left. What is no entity-tag is passed over up to the next comma. Commas may be inside of a
// tag, quotes may not (RFC 9110, 8.8.3).
[[nodiscard]] std::string_view next_entity_tag(std::string_view& list);

}  // namespace sluice::http
