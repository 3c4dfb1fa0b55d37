#pragma once

#include <memory>
#include <vector>

#include "app/config/source.h"
#include "app/file_watch.h"
#include "base/declare.h"
#include "gateway/jwt/keys.h"
#include "gateway/options.h"

namespace sluice::app {

// The keys that the policies of a running server verify tokens with, and their successors. It belongs to the thread
// that tends it, and only reads files: whoever asks hands the results to the cores.
class PolicyKeys {
 public:
  using Policies = std::vector<Named<gateway::PolicyOptions>>;
  using Keys = std::vector<std::shared_ptr<const gateway::jwt::KeySet>>;  // by policy; null: its type has none

  // `keys`: what load_keys() has made of the same options just before. `policies` outlives it.
  PolicyKeys(const Policies& policies, Keys keys);

  // No policy's keys are in files: there is nothing to tend.
  [[nodiscard]] bool empty() const { return watch_.empty(); }
  [[nodiscard]] const Keys& keys() const { return keys_; }

  // Reads the files again. False: something is wrong with them, which is logged, and all keys stay as they were.
  bool reload();
  // Once in a while, as Certificates::tend(). True: there is something new.
  bool tend() { return watch_.changed() && reload(); }

 private:
  const Policies& policies_;
  Keys keys_;
  FileWatch watch_;
};

// Of a file that is wrong: what is wrong with the keys of its policies, so that one run finds both.
void add_key_errors(const PolicyKeys::Policies& policies, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
