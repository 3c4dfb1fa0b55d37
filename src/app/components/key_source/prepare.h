#pragma once

#include <expected>
#include <memory>

#include "app/plan.h"
#include "gateway/jwt/key_source.h"

namespace sluice::app {

// Adds the source of a policy's keys to the plan. Fetched keys are kept if the policy has the same options for them as
// one of `before`, which may be null.
[[nodiscard]] std::expected<void, gateway::jwt::KeyProblem> add_key_source(Plan& plan,
                                                                           const gateway::jwt::Options& policy,
                                                                           unsigned cores, const Plan* before);
// The source of a policy's keys; null if they are not fetched.
[[nodiscard]] std::shared_ptr<KeySourceComponent> find_source(const Plan& plan, const gateway::jwt::Options& policy);

}  // namespace sluice::app
