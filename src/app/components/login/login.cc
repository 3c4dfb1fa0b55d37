#include "app/components/login/login.h"

#include "app/config/difference.h"

namespace sluice::app {

bool LoginComponent::is_same(const LoginComponent& other) const {
  return database_ == other.database_ && prepared->ended == other.prepared->ended &&
         prepared->query.id == other.prepared->query.id && prepared->keys->is_same(*other.prepared->keys) &&
         config::same(prepared->options, other.prepared->options) &&
         config::same(prepared->origins, other.prepared->origins);
}

std::shared_ptr<login::Login> LoginComponent::make(const core::Here& here, const Parts& parts) const {
  return std::make_shared<login::Login>(prepared, here, parts.find(database_.get()));
}

}  // namespace sluice::app
