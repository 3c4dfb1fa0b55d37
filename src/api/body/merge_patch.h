#pragma once

#include <string>
#include <string_view>

namespace sluice::api {

// The result of a JSON merge patch (RFC 7396). Values that stay keep their text, and members keep their order.
// `target`: the value to change; a text that is not a JSON object counts as an empty one. `patch`: a JSON object.
[[nodiscard]] std::string merge_patch(std::string_view target, std::string_view patch);

}  // namespace sluice::api
