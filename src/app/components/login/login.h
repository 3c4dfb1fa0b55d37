#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "app/components/database/database.h"
#include "login/login.h"

namespace sluice::app {

// [login].
class LoginComponent final : public ComponentOf<LoginComponent, login::Login> {
 public:
  LoginComponent(std::shared_ptr<const login::Prepared> of, std::shared_ptr<DatabaseComponent> database)
      : prepared(std::move(of)), database_(std::move(database)) {}

  [[nodiscard]] bool is_same(const LoginComponent& other) const;
  const std::shared_ptr<const login::Prepared> prepared;

 private:
  std::shared_ptr<login::Login> make(const core::Here& here, const Parts& parts) const override;
  void serve(login::Login& login, const Parts& /*parts*/) const override { login.begin(); }
  void retire(login::Login& login) const override { login.stop(); }
  void end(login::Login& login) const override { login.stop(); }
  Readings readings_of(login::Login& login) const override { return login.readings(); }

  const std::shared_ptr<DatabaseComponent> database_;
};

}  // namespace sluice::app
