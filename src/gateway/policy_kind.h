#pragma once

#include <string_view>

namespace sluice::gateway {

class PolicyChecks;

// A kind of policy, as the rest of the program knows it. Each kind is a folder. Its options have a member `kind` and,
// if their combination must be checked, `void check(PolicyChecks& checks) const`. The folder policies/ knows all kinds:
// PolicyKinds (policies/options.h) lists their options, and policies/make_policy.cc makes their policies.
struct PolicyKind {
  std::string_view name;       // the value of `type` in the configuration
  std::string_view about;      // the meaning, for the reference
  bool gives_claims = false;   // may attach an Identity to requests that pass
  bool is_guard = true;        // may refuse a request
  bool is_counted = false;     // all cores count together
  bool is_limit = false;       // limits what clients use, instead of checking who the clients are
  bool may_repeat = false;     // one route may use several policies of this kind
  std::string_view instead{};  // of several policies of this kind, if it may not repeat: a hint
  bool may_run_dry = true;     // may have `dry_run`, if it is a guard
  bool is_first = false;       // is applied before all others, wherever it stands in `use`
};

}  // namespace sluice::gateway
