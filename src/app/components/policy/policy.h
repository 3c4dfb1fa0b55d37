#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "app/components/key_source/key_source.h"
#include "app/components/resident/resident.h"
#include "app/components/upstream/upstream.h"
#include "base/declare.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/revocations.h"
#include "gateway/limits/shared.h"
#include "gateway/policies/options.h"
#include "gateway/policy.h"

namespace sluice::app {

// [policy.NAME]. A policy that differs in its keys alone is the same; it gets the new keys.
class PolicyComponent final : public ComponentOf<PolicyComponent, gateway::Policy> {
 public:
  struct Options {
    Named<gateway::PolicyOptions> options;
    std::shared_ptr<gateway::jwt::CurrentKeys> keys;         // null if it has none
    std::shared_ptr<gateway::limits::Shared> limit;          // null: it counts nothing
    std::shared_ptr<const ResidentComponent> table;          // that it reads; null: none
    std::shared_ptr<const KeySourceComponent> source;        // of its keys; null: they are not fetched
    std::shared_ptr<const UpstreamComponent> upstream;       // that it asks; null: none
    std::shared_ptr<gateway::jwt::Revocations> revocations;  // in its file; null: none
    std::shared_ptr<gateway::jwt::Revocations> ended;        // sessions of [login]; null: it takes none of its tokens
  };
  explicit PolicyComponent(Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const PolicyComponent& other) const;
  const Options options;

 private:
  std::shared_ptr<gateway::Policy> make(const core::Here& here, const Parts& parts) const override;
  void serve(gateway::Policy& policy, const Parts& /*parts*/) const override { policy.begin(); }
  Readings readings_of(gateway::Policy& policy) const override;
};

}  // namespace sluice::app
