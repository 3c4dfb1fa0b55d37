#include "gateway/policy.h"

namespace sluice::gateway {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts) {
  std::unique_ptr<Policy> made;
  options.visit([&](const auto& of_kind) { made = make_policy(of_kind, parts); });
  return made;
}

}  // namespace sluice::gateway
