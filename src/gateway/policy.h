#pragma once

#include <memory>

#include "base/reading.h"
#include "core/reactor.h"
#include "gateway/jwt/keys.h"
#include "gateway/options.h"
#include "http/filter.h"

namespace sluice::gateway {

// A [policy.NAME] on one core.
class Policy : public http::Filter {
 public:
  using http::Filter::Filter;
  // Keys for tokens from now on, where it verifies any.
  virtual void set_keys(std::shared_ptr<const jwt::KeySet>) {}
  [[nodiscard]] virtual Readings readings() const { return {}; }
};

// `keys`: null for a type that has none. `reactor` outlives it.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyOptions& options, std::shared_ptr<const jwt::KeySet> keys,
                                                  const core::Reactor& reactor);

}  // namespace sluice::gateway
