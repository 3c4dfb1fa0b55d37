#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "core/alarm.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/sharded.h"
#include "core/task.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/options.h"
#include "http/client/pool.h"
#include "net/resolver.h"
#include "net/tls/context.h"

namespace sluice::gateway::jwt {

class KeySource;

// The parts of `jwks_url`.
struct KeyUrl {
  http::client::Origin origin;
  std::string host;    // as in a Host field
  std::string target;  // the path and the query
  std::string name;    // for logs and metrics: without the query

  [[nodiscard]] static std::expected<KeyUrl, std::string> parse(std::string_view text);
};

// The part of a JWK set from a URL that all cores share. Policies with the same options use the same object.
class SharedKeySource {
 public:
  // Reads the file of `jwks_ca`. Precondition: the options have `jwks_url`.
  [[nodiscard]] static std::expected<std::shared_ptr<SharedKeySource>, KeyProblem> make(const Options& policy,
                                                                                        unsigned cores);

  // Whether a policy with these options uses this set.
  [[nodiscard]] bool is_for(const Options& policy) const;
  // Whether both have the same options and the same contents of `jwks_ca`.
  [[nodiscard]] bool is_same(const SharedKeySource& other) const;
  [[nodiscard]] bool needs_resolver() const;

  const Options options;  // of one policy that uses it
  const KeyUrl url;
  const std::shared_ptr<const net::tls::ClientContext> tls;  // null: the URL is http
  // Null before the first successful fetch, and while the set is stale. The owner publishes.
  const std::shared_ptr<CurrentKeys> keys = std::make_shared<CurrentKeys>();
  net::Resolver* resolver = nullptr;  // set before the cores use this, if needed; outlives this object

 private:
  friend class KeySource;
  SharedKeySource(const Options& policy, std::shared_ptr<const net::tls::ClientContext> context, unsigned cores);

  const core::Sharded<KeySource> parts_;
};

// One core's part of a JWK set from a URL. The first core fetches the set at start, every `jwks_every`, and when a
// token has a key that is not in the set. If a fetch fails, it is retried, and the last good set stays in use until it
// is stale.
class KeySource {
 public:
  // On all cores together, tokens with unknown keys cause at most one fetch in this time.
  static constexpr Duration unknown_every = 30s;
  static constexpr std::size_t most_waiting = 1000;    // requests per core that wait for a fetch
  static constexpr std::size_t largest_set = 1 << 20;  // bytes
  static constexpr Duration first_pause = 1s;          // after a failure; doubled after each further one
  static constexpr Duration longest_pause = 30s;

  // All arguments outlive this object.
  [[nodiscard]] static std::shared_ptr<KeySource> make(std::shared_ptr<SharedKeySource> shared, core::Reactor& reactor,
                                                       core::Mailbox& mailbox, core::MeshPort& mesh,
                                                       core::BlockingPool& threads);
  KeySource(const KeySource&) = delete;

  [[nodiscard]] bool has_keys() const { return shared_->keys->latest() != nullptr; }
  [[nodiscard]] const KeyUrl& url() const { return shared_->url; }
  // Whether there are none because fetches have failed for longer than `stale_after`.
  [[nodiscard]] bool is_stale() const { return had_keys_ && !has_keys(); }

  // Whether a token with an unknown key may wait for a fetch.
  [[nodiscard]] bool may_fetch() const { return reactor_.now() >= quiet_until_; }
  [[nodiscard]] bool is_crowded() const { return waiting_.size() >= most_waiting; }
  // Requests a fetch if none is running, and waits for its end, at most `jwks_timeout`.
  [[nodiscard]] core::Task<void> fetch();

  [[nodiscard]] Readings readings() const;

 private:
  static constexpr unsigned owner = 0;

  KeySource(std::shared_ptr<SharedKeySource> shared, core::Reactor& reactor, core::Mailbox& mailbox,
            core::MeshPort& mesh, core::BlockingPool& threads);

  // Called when a fetch has ended. Until `quiet_until`, tokens cause no further fetch.
  void ended(Instant quiet_until);

  // The following run only on the owner, the core that fetches.
  void asked(unsigned by);
  [[nodiscard]] core::Task<void> run();
  [[nodiscard]] core::Task<void> ask();
  // Receives the answer into body_. Returns what is wrong with it, or an empty string.
  [[nodiscard]] core::Task<std::string> receive();
  void report();
  // Drops the set if fetches have failed for too long.
  void drop_stale();

  const std::shared_ptr<SharedKeySource> shared_;
  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::MeshPort& mesh_;
  core::BlockingPool& threads_;
  bool had_keys_ = false;
  std::vector<core::Alarm*> waiting_;
  Instant quiet_until_{};  // until then tokens cause no fetch
  Instant asked_until_{};  // until then this core waits for the owner's reply

  // Used by the owner only.
  http::client::Pool pool_;
  core::Alarm wanted_;
  core::Alarm answered_;
  bool is_fetching_ = true;
  Instant next_unknown_{};  // from then on a token may cause a fetch
  std::string fault_;       // of the last fetch; empty: it succeeded
  bool is_failing_ = false;
  Instant stale_at_ = never;  // when the set becomes stale; `never` if the last fetch succeeded
  Buffer body_;
  std::string text_;  // of the current set; empty if there are no keys
  std::uint64_t fetched_ = 0;
  std::uint64_t failed_ = 0;
  core::TaskGroup asking_;
  core::TaskGroup running_;
  const core::Sharded<KeySource>::Entry entry_;
};

}  // namespace sluice::gateway::jwt
