#pragma once

#include <memory>
#include <string_view>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "gateway/jwt/key_source.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/revocations.h"
#include "gateway/key_table.h"
#include "gateway/limits/shared.h"
#include "gateway/policies/options.h"
#include "gateway/policy.h"

namespace sluice::gateway {

class Upstream;
struct SharedUpstream;

// Objects that a policy needs besides its options. All referenced objects outlive it.
struct PolicyParts {
  std::string_view name;  // of the policy
  core::Reactor& reactor;
  core::Mailbox& mailbox;
  core::MeshPort& mesh;
  core::BlockingPool& threads;
  std::shared_ptr<const jwt::CurrentKeys> keys;         // null for a type that has none
  std::shared_ptr<jwt::KeySource> source;               // if the keys are fetched, else null
  std::shared_ptr<limits::Shared> limit;                // null for a type that has none
  std::unique_ptr<KeyTable> table;                      // the table that the options name, else null
  std::shared_ptr<const jwt::Revocations> revocations;  // the file that the options name, else null
  std::shared_ptr<const jwt::Revocations> ended;        // the sessions that [login] has ended; null: it is not theirs
  // The upstream that the options name and its configuration, else null.
  std::shared_ptr<Upstream> upstream;
  std::shared_ptr<const SharedUpstream> shared_upstream;
  bool dry_run = false;  // whether refusals have no effect
};

[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts);

}  // namespace sluice::gateway
