#include "gateway/policy.h"

#include <utility>

#include "gateway/dry_run.h"

namespace sluice::gateway {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts) {
  std::unique_ptr<Policy> made;
  parts.dry_run = options.dry_run.value;
  options.visit([&](const auto& of_kind) { made = make_policy(of_kind, parts); });
  if (options.dry_run.value) made = std::make_unique<DryRun>(std::move(made));
  return made;
}

}  // namespace sluice::gateway
