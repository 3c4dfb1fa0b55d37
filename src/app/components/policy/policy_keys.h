#pragma once

#include <memory>
#include <vector>

#include "app/config/source.h"
#include "base/declare.h"
#include "gateway/jwt/keys.h"
#include "gateway/policies/options.h"
#include "runtime/file_watch.h"

namespace sluice::app {

// The current keys with which the policies of a running server verify tokens. Used by one thread. It only reads files;
// the caller passes the results to the cores.
class PolicyKeys {
 public:
  using Policies = std::vector<Named<gateway::PolicyOptions>>;
  using Keys = std::vector<std::shared_ptr<const gateway::jwt::KeySet>>;  // by policy; null if its type has no keys

  // `keys`: new results of load_keys() for the same options. `policies` outlives this object.
  PolicyKeys(const Policies& policies, Keys keys);

  // True if no policy has keys in files; then tend() has nothing to do.
  [[nodiscard]] bool empty() const { return watch_.empty(); }
  [[nodiscard]] const Keys& keys() const { return keys_; }

  // Reads the files again. Returns false if something is wrong with them; this is logged, and all keys stay as they
  // were.
  bool reload();
  // To be called as often as Certificates::tend(). Returns true if keys are new.
  bool tend() { return watch_.changed() && reload(); }

 private:
  const Policies& policies_;
  Keys keys_;
  runtime::FileWatch watch_;
};

// For a configuration that already has errors: adds errors in its policies' keys, so that one run reports all errors.
void add_key_errors(const PolicyKeys::Policies& policies, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
