#pragma once

#include <expected>

#include "app/plan.h"
#include "gateway/proxy/upstream.h"

namespace sluice::app {

// Adds an upstream to the plan. One with the same options and the same `tls` files as one of `before`, which may be
// null, keeps its connection pools and state. If only its servers or their balancing differ, the servers that stay keep
// theirs.
[[nodiscard]] std::expected<void, gateway::TlsProblem> add_upstream(Plan& plan,
                                                                    const gateway::UpstreamOptions& upstream,
                                                                    const Plan* before);

}  // namespace sluice::app
