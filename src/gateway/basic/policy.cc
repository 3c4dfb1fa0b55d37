#include "gateway/basic/policy.h"

#include <algorithm>
#include <stdexcept>

#include <openssl/rand.h>

#include "base/buffer.h"
#include "base/json.h"
#include "core/sleep.h"
#include "gateway/basic/credentials.h"
#include "gateway/basic/password.h"
#include "gateway/limits/key.h"
#include "http/identity.h"

namespace sluice::gateway::basic {
namespace {

constexpr Duration pause = 5ms;     // how often to check whether another verification runs
constexpr Duration patience = 10s;  // how long to wait for the running verification
constexpr std::string_view authorization = "authorization";

std::shared_ptr<const http::Claims> claims_of(std::string_view name) {
  Buffer json;
  json.append(R"({"sub":")");
  append_json_escaped(json, name);
  json.append("\"}");
  return http::Claims::parse(json.view());
}

// The permission to verify, one per policy. It is given back when the work is destroyed, on any thread.
class Turn {
 public:
  explicit Turn(std::shared_ptr<std::atomic<bool>> taken) : taken_(std::move(taken)) { *taken_ = true; }
  Turn(Turn&& other) noexcept = default;
  ~Turn() {
    if (taken_) *taken_ = false;
  }

 private:
  std::shared_ptr<std::atomic<bool>> taken_;
};

}  // namespace

BasicPolicy::BasicPolicy(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox,
                         core::BlockingPool& threads)
    : reactor_(reactor),
      mailbox_(mailbox),
      threads_(threads),
      queue_(options.queue),
      network_share_(std::max<std::size_t>(1, options.queue / 2)),
      cache_for_(options.cache_for),
      cache_users_(options.cache_users),
      pass_(options.pass),
      optional_(options.optional),
      challenge_("Basic realm=\"" + options.realm.value + "\", charset=\"UTF-8\""),
      secret_(32, '\0') {
  for (const auto& user : options.users) {
    users_.push_back({.name = user.name.value, .hash = user.value.hash, .claims = claims_of(user.name.value)});
  }
  std::ranges::sort(users_, {}, &User::name);
  auto* const bytes = reinterpret_cast<unsigned char*>(secret_.data());
  if (RAND_bytes(bytes, static_cast<int>(secret_.size())) != 1) throw std::runtime_error("there is no randomness");
}

core::Async<std::optional<http::Response>> BasicPolicy::before(http::Exchange& exchange, http::Slot&) {
  const http::Field* found = nullptr;
  for (const http::Field& field : exchange.request.fields) {
    if (!http::same_name(field.name, authorization)) continue;
    // Another server may have checked a different one of the fields.
    if (found != nullptr) return Answer(refuse(Refusal::repeated));
    found = &field;
  }
  if (found == nullptr) {
    if (!optional_) return Answer(refuse(Refusal::missing));
    ++anonymous_;
    exchange.attributes.set(http::Challenge{challenge_});
    return Answer();
  }
  const auto credentials = parse_credentials(found->value, decoded_);
  if (!credentials) return Answer(refuse(Refusal::scheme));
  const Digest digest = sha256_.of(secret_, decoded_);
  if (const User* user = find_remembered(digest)) {
    ++hits_;
    return pass(exchange, *user);
  }
  std::array<char, 16> room;
  std::string network(limits::client_of(exchange.request.peer, room));
  const auto others = waiting_by_network_.find(network);
  if (waiting_ >= queue_ || (others != waiting_by_network_.end() && others->second >= network_share_)) {
    return Answer(refuse(Refusal::busy));
  }
  const User* const user = find_user(credentials->user);
  // Unknown names are distributed over the existing hashes. The same name always uses the same hash.
  const Digest of_name = sha256_.of(secret_, credentials->user);
  const User& measure = user != nullptr ? *user : users_[DigestHash()(of_name) % users_.size()];
  return verify(exchange, {.network = std::move(network),
                           .digest = digest,
                           .user = user,
                           .hash = measure.hash,
                           .password = std::string(credentials->password)});
}

// A request that waits for its verification, or for its result.
class BasicPolicy::Waiting {
 public:
  Waiting(BasicPolicy& policy, const std::string& network)
      : policy_(policy), place_(&*policy.waiting_by_network_.try_emplace(network).first) {
    ++policy.waiting_;
    ++place_->second;
    policy.line_.push_back(this);
  }
  Waiting(const Waiting&) = delete;
  ~Waiting() {
    leave_line();
    --policy_.waiting_;
    if (--place_->second == 0) policy_.waiting_by_network_.erase(std::string(place_->first));
  }
  void leave_line() { std::erase(policy_.line_, this); }
  [[nodiscard]] const std::string& network() const { return place_->first; }

 private:
  BasicPolicy& policy_;
  std::unordered_map<std::string, std::size_t>::value_type* place_;
};

const BasicPolicy::Waiting* BasicPolicy::next() const {
  const auto other = std::ranges::find_if(line_, [&](const auto* one) { return one->network() != served_last_; });
  return other != line_.end() ? *other : line_.front();
}

core::Task<BasicPolicy::Answer> BasicPolicy::verify(http::Exchange& exchange, Attempt attempt) {
  Waiting waiting(*this, attempt.network);
  const Instant end = reactor_.now() + patience;
  while (*is_verifying_ || next() != &waiting) {
    if (reactor_.now() >= end) co_return refuse(Refusal::busy);
    co_await core::Sleep(reactor_, reactor_.now() + pause);
    // Another request may have verified the same password meanwhile.
    if (const User* user = find_remembered(attempt.digest)) {
      ++hits_;
      co_return pass(exchange, *user);
    }
  }
  waiting.leave_line();
  served_last_ = attempt.network;
  ++verifications_;
  auto work = [turn = Turn(is_verifying_), hash = std::move(attempt.hash), password = std::move(attempt.password)] {
    return verify_password(hash, password);
  };
  const auto good = co_await threads_.run(mailbox_, std::move(work));
  if (!good) co_return refuse(Refusal::busy);
  if (!*good || attempt.user == nullptr) co_return refuse(Refusal::wrong);
  remember(attempt.digest, *attempt.user);
  co_return pass(exchange, *attempt.user);
}

const BasicPolicy::User* BasicPolicy::find_user(std::string_view name) const {
  const auto found = std::ranges::lower_bound(users_, name, {}, &User::name);
  return found != users_.end() && found->name == name ? &*found : nullptr;
}

const BasicPolicy::User* BasicPolicy::find_remembered(const Digest& digest) {
  while (!oldest_.empty() && oldest_.front().second <= reactor_.now()) {
    remembered_.erase(oldest_.front().first);
    oldest_.pop_front();
  }
  const auto found = remembered_.find(digest);
  return found != remembered_.end() ? found->second.first : nullptr;
}

void BasicPolicy::remember(const Digest& digest, const User& user) {
  if (cache_for_ == Duration{} || cache_users_ == 0 || remembered_.contains(digest)) return;
  if (oldest_.size() >= cache_users_) {
    remembered_.erase(oldest_.front().first);
    oldest_.pop_front();
  }
  const Instant until = reactor_.now() + cache_for_;
  remembered_.emplace(digest, std::pair(&user, until));
  oldest_.emplace_back(digest, until);
}

BasicPolicy::Answer BasicPolicy::pass(http::Exchange& exchange, const User& user) {
  exchange.attributes.set(http::Identity{.claims = user.claims});
  if (pass_) return std::nullopt;
  ChangedRequest& changed = changed_.take(exchange);
  for (const http::Field& field : exchange.request.fields) {
    if (!http::same_name(field.name, authorization)) changed.keep(exchange.request, field, field.value);
  }
  changed.apply(exchange.request);
  return std::nullopt;
}

Readings BasicPolicy::readings() const {
  Readings all{
      counter("sluice_basic_cache_hits_total", "Requests whose password was verified before.", hits_),
      counter("sluice_basic_verifications_total", "Passwords that were verified, right or wrong.", verifications_),
      counter("sluice_basic_anonymous_total", "Requests without a password that went on.", anonymous_),
      gauge("sluice_basic_cache_users", "Right passwords that are remembered.",
            static_cast<double>(remembered_.size()))};
  constexpr std::string_view names[] = {"missing", "repeated", "scheme", "wrong", "busy"};
  for (std::size_t i = 0; i < refusals_.size(); ++i) {
    all.push_back(counter("sluice_basic_refusals_total", "Requests that were not let through.", refusals_[i],
                          label("reason", names[i])));
  }
  return all;
}

http::Response BasicPolicy::refuse(Refusal why) {
  ++refusals_[static_cast<std::size_t>(why)];
  if (why == Refusal::repeated) return http::problem(400, "The request has more than one Authorization.");
  if (why == Refusal::busy) {
    http::Response response = http::problem(503, "Too many passwords wait to be verified.");
    response.fields.add_trusted("Retry-After", "1");
    return response;
  }
  http::Response response = http::problem(
      401, why == Refusal::wrong ? "The name or the password is wrong." : "A name and a password are needed.");
  response.fields.add_trusted("WWW-Authenticate", challenge_);
  return response;
}

}  // namespace sluice::gateway::basic
