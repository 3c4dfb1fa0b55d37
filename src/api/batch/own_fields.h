#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/options.h"
#include "api/role.h"

namespace sluice::api::batch {

// The header fields, in lower case and sorted, that tell endpoints who the client is or what it may do: those named in
// `role`, `settings`, `require` and `from`. A proxy controls them on the batch's own request, but it does not look into
// the body. A call must therefore not set them. `role` may be null. Precondition: the options have been checked.
[[nodiscard]] std::vector<std::string> own_fields(const RolePlan* role,
                                                  std::span<const EndpointOptions* const> endpoints);

}  // namespace sluice::api::batch
