#include "app/components/key_source/prepare.h"

#include <utility>

namespace sluice::app {

std::shared_ptr<KeySourceComponent> find_source(const Plan& plan, const gateway::jwt::Options& policy) {
  for (auto& one : plan.all<KeySourceComponent>()) {
    if (one->shared->is_for(policy)) return std::move(one);
  }
  return nullptr;
}

std::expected<void, gateway::jwt::KeyProblem> add_key_source(Plan& plan, const gateway::jwt::Options& policy,
                                                             unsigned cores, const Plan* before) {
  if (find_source(plan, policy) != nullptr) return {};
  auto made = gateway::jwt::SharedKeySource::make(policy, cores);
  if (!made) return std::unexpected(made.error());
  (void)plan.add(std::make_shared<KeySourceComponent>(std::move(*made)), before);
  return {};
}

}  // namespace sluice::app
