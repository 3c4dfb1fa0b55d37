// The choice of a server for a request, and the attempt to send it there.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "gateway/proxy/hash_key.h"
#include "gateway/proxy/upstream.h"

namespace sluice::gateway {
namespace {

// The hash that chooses the server, if the upstream balances by hash.
std::optional<std::uint64_t> key_of(const SharedUpstream& of, const http::Exchange& exchange) {
  if (of.options.balance.value != Balance::hash || !of.hash) return std::nullopt;
  return value_of(*of.hash, exchange).transform(hash_of);
}

}  // namespace

Upstream::Server* Upstream::choose_permitted(std::optional<std::uint64_t> key) {
  for (const auto& server : servers_) {
    if (!server->has_permit) continue;
    // The permit is only for a request that could go to the server if it were up.
    const auto share = std::exchange(server->share, 100);
    const Choice choice(candidates_, {});
    const bool is_chosen = key ? choice.hash(*key) == server.get() : choice.may_be(*server);
    server->share = share;
    if (is_chosen) return server.get();
  }
  return nullptr;
}

std::vector<Candidate*> Upstream::earlier_candidates(const SharedUpstream& of) {
  std::vector<Candidate*> candidates;
  for (const auto& [options, entry] : of.places(*addresses_)) {
    Server* server = nullptr;
    for (const auto* servers : {&servers_, &gone_}) {
      const auto found = std::ranges::find_if(*servers, [&](const auto& one) { return one->address == options.name; });
      if (found != servers->end()) server = found->get();
    }
    if (server == nullptr) {
      gone_.push_back(std::make_unique<Server>(reactor_, mailbox_, of, options));
      server = gone_.back().get();
      server->weight = entry.weight;
      server->is_backup = entry.is_backup;
      server->is_gone = true;
    }
    candidates.push_back(server);
  }
  wake_at(reactor_.now());  // releases the servers that are not chosen
  return candidates;
}

Upstream::Server* Upstream::choose(const SharedUpstream& of, const http::Exchange& exchange,
                                   std::span<const std::uint64_t> tried) {
  const auto key = key_of(of, exchange);
  const bool is_served = &of == shared_.get();
  if (permits_ != 0 && tried.empty() && is_served) [[unlikely]] {
    if (Server* const permitted = choose_permitted(key)) return permitted;
  }
  std::vector<Candidate*> earlier;
  if (!is_served) [[unlikely]]
    earlier = earlier_candidates(of);
  const Choice choice(is_served ? candidates_ : earlier, tried);
  Candidate* const chosen = key                                          ? choice.hash(*key)
                            : of.options.balance.value == Balance::least ? choice.least(random_)
                                                                         : choice.round_robin();
  return static_cast<Server*>(chosen);
}

Upstream::Attempt Upstream::start(Server& server) {
  std::uint64_t permit = 0;
  if (server.has_permit) [[unlikely]] {
    server.has_permit = false;
    --permits_;
    permit = server.permit;
  }
  return {*this, server, permit};
}

std::optional<Upstream::Attempt> Upstream::begin(const SharedUpstream& of, const http::Exchange& exchange) {
  budget_.add_request();
  Server* const first = choose(of, exchange, {});
  if (first == nullptr) return std::nullopt;
  return start(*first);
}

std::optional<Upstream::Attempt> Upstream::begin_again(const SharedUpstream& of, const http::Exchange& exchange,
                                                       const Tried& tried, bool is_free) {
  if (tried.ids().size() > of.options.retries.tries) return std::nullopt;
  Server* const next = choose(of, exchange, tried.ids());
  if (next == nullptr) return std::nullopt;
  if (!is_free && !budget_.take_retry()) {
    ++over_budget_;
    return std::nullopt;
  }
  return start(*next);
}

void Upstream::Attempt::leave() noexcept {
  if (server_ == nullptr) return;
  if (permit_ != 0) upstream_->give_back(*server_, permit_, Health::Trial::unused);
  --server_->in_flight;
  if (std::exchange(has_entered_, false)) [[unlikely]]
    upstream_->busy_->give_back(busy_key(*server_));
  if (server_->is_gone) upstream_->wake_at(upstream_->reactor_.now());
}

// ---- The limit of connections ----

void Upstream::limit_connections() {
  constexpr std::uint32_t most_servers = 4096;  // with those of earlier versions
  const UpstreamOptions& options = shared_->options;
  if (options.connections == 0 && busy_ == nullptr) return;
  SLUICE_ASSERT(mesh_ != nullptr);
  const limits::Room room{
      .requests = options.connections != 0 ? options.connections : std::numeric_limits<std::uint32_t>::max(),
      .queue = options.queue.value,
      .wait = options.wait.value};
  if (busy_ == nullptr) busy_ = limits::Permits::of(cores_->busy, reactor_, *mesh_, room, most_servers);
  busy_->serve(room, this);
}

limits::Key Upstream::busy_key(const Server& server) {
  return {.low = server.id | 1, .high = server.id * 0x9e3779b97f4a7c15};
}

core::Task<Upstream::Attempt::Entry> Upstream::Attempt::enter(Instant until) {
  using Answer = limits::Permits::Answer;
  const Answer answer = co_await upstream_->busy_->take(busy_key(*server_), until);
  has_entered_ = answer == Answer::granted;
  if (has_entered_ || answer == Answer::alone) co_return Entry::granted;
  ++server_->busy;
  co_return answer == Answer::late ? Entry::late : Entry::queue_full;
}

}  // namespace sluice::gateway
