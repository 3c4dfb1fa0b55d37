#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/options.h"
#include "api/role.h"

namespace sluice::api::batch {

// The header fields, in lower case, sorted, by which endpoints are told for whom they work or what they may do: those
// that `role`, `settings`, `require` and `from` name. A proxy sees to them on the batch's own request and looks into no
// body, so no call sets them. `role` may be null. Precondition: the options have been checked.
[[nodiscard]] std::vector<std::string> own_fields(const RolePlan* role,
                                                  std::span<const EndpointOptions* const> endpoints);

}  // namespace sluice::api::batch
