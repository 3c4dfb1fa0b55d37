#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "gateway/jwt/key_source.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/revocations.h"
#include "gateway/key_table.h"
#include "gateway/limits/shared.h"
#include "gateway/options.h"
#include "http/filter.h"
#include "http/router.h"

namespace sluice::gateway {

class Upstream;
struct SharedUpstream;

// A [policy.NAME] on one core.
class Policy : public http::Filter {
 public:
  using http::Filter::Filter;
  // Sets the keys that tokens are verified with from now on. Null: there are none.
  virtual void set_keys(std::shared_ptr<const jwt::KeySet>) {}
  // Tells the policy that this route uses it. Called before requests arrive.
  virtual void used_by(std::uint16_t /*route*/, const http::Pattern&) {}
  // Called when requests begin to use this policy, instead of the one that a reload has replaced.
  virtual void begin() {}
  [[nodiscard]] virtual Readings readings() const { return {}; }
};

// Objects that a policy needs besides its options. All referenced objects outlive it.
struct PolicyParts {
  std::string_view name;  // of the policy
  core::Reactor& reactor;
  core::Mailbox& mailbox;
  core::MeshPort& mesh;
  core::BlockingPool& threads;
  std::shared_ptr<const jwt::KeySet> keys;              // null for a type that has none
  std::shared_ptr<jwt::KeySource> source;               // if the keys are fetched, else null
  std::shared_ptr<limits::Shared> limit;                // null for a type that has none
  std::unique_ptr<KeyTable> table;                      // the table that the options name, else null
  std::shared_ptr<const jwt::Revocations> revocations;  // the file that the options name, else null
  // The upstream that the options name and its configuration, else null.
  std::shared_ptr<Upstream> upstream;
  std::shared_ptr<const SharedUpstream> shared_upstream;
  bool dry_run = false;  // whether refusals have no effect
};

[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts);

}  // namespace sluice::gateway
