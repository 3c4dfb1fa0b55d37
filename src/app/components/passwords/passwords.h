#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/password.h"
#include "app/components/component.h"
#include "gateway/basic/password_line.h"

namespace sluice::app {

// One core's passwords of requests that wait to be hashed.
class PasswordHashes final : public api::PasswordHasher {
 public:
  explicit PasswordHashes(const core::Here& here);

  [[nodiscard]] core::Task<std::optional<std::string>> hash(std::string_view peer, std::string password) override;
  [[nodiscard]] Readings readings() const;

 private:
  gateway::basic::PasswordLine line_;
};

// The component that hashes passwords for all endpoints. Present if an endpoint has a parameter with `hash`.
class PasswordsComponent final : public ComponentOf<PasswordsComponent, PasswordHashes> {
 public:
  [[nodiscard]] bool is_same(const PasswordsComponent& /*other*/) const { return true; }

 private:
  std::shared_ptr<PasswordHashes> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(PasswordHashes& hashes) const override { return hashes.readings(); }
};

}  // namespace sluice::app
