#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "gateway/jwt/key_source.h"

namespace sluice::app {

// The keys at a `jwks_url`. Policies with the same options for them share it.
class KeySourceComponent final : public ComponentOf<KeySourceComponent, gateway::jwt::KeySource> {
 public:
  explicit KeySourceComponent(std::shared_ptr<gateway::jwt::SharedKeySource> of) : shared(std::move(of)) {}

  [[nodiscard]] bool is_same(const KeySourceComponent& other) const { return shared->is_same(*other.shared); }
  const std::shared_ptr<gateway::jwt::SharedKeySource> shared;

 private:
  std::shared_ptr<gateway::jwt::KeySource> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(gateway::jwt::KeySource& source) const override;
  core::Task<runtime::Readiness> readiness_of(gateway::jwt::KeySource& source, Instant deadline) const override;
};

}  // namespace sluice::app
