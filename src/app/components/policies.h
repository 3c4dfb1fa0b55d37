#pragma once

#include <vector>

#include "app/options.h"
#include "base/declare.h"
#include "gateway/policies/options.h"

namespace sluice::app {

// The policies that a route uses, without their keys: new keys reach a policy that stays.
using Policies = std::vector<Named<gateway::PolicyOptions>>;

}  // namespace sluice::app
