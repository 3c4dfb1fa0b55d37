#pragma once

#include <expected>
#include <string>

#include "app/plan.h"

namespace sluice::app {

// Reads the file of a policy's revocations, unless this plan or the one before already has. The error is for the
// operator.
[[nodiscard]] std::expected<void, std::string> add_revocations(Plan& plan, const std::string& path, const Plan* before);
// Adds the policies of the options. Limits keep their counts if they count by the same keys, even if the allowed
// numbers differ. Precondition: `keys` is complete, and the tables, upstreams, revocations and key sources have
// been added.
void add_policies(Plan& plan, unsigned cores, const Plan* before);

}  // namespace sluice::app
