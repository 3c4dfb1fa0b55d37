#include "gateway/basic/policy.h"

#include <algorithm>
#include <stdexcept>

#include <openssl/rand.h>

#include "base/buffer.h"
#include "base/json.h"
#include "gateway/basic/credentials.h"
#include "gateway/basic/password.h"
#include "gateway/limits/key.h"
#include "http/identity.h"

namespace sluice::gateway::basic {
namespace {

constexpr std::string_view authorization = "authorization";

std::shared_ptr<const http::Claims> claims_of(std::string_view name) {
  Buffer json;
  json.append(R"({"sub":")");
  append_json_escaped(json, name);
  json.append("\"}");
  return http::Claims::parse(json.view());
}

}  // namespace

BasicPolicy::BasicPolicy(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox,
                         core::BlockingPool& threads)
    : reactor_(reactor),
      cache_for_(options.cache_for),
      cache_users_(options.cache_users),
      pass_(options.pass),
      optional_(options.optional),
      challenge_("Basic realm=\"" + options.realm.value + "\", charset=\"UTF-8\""),
      secret_(32, '\0'),
      line_(reactor, mailbox, threads, options.queue) {
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
  if (line_.is_full(network)) return Answer(refuse(Refusal::busy));
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

core::Task<BasicPolicy::Answer> BasicPolicy::verify(http::Exchange& exchange, Attempt attempt) {
  const auto work = [hash = std::move(attempt.hash), password = std::move(attempt.password)] {
    return verify_password(hash, password);
  };
  // Another request may verify the same password meanwhile.
  auto is_remembered = [this, digest = attempt.digest] { return find_remembered(digest) != nullptr; };
  const auto good = co_await line_.run(std::move(attempt.network), work, std::move(is_remembered));
  if (!good && good.error() == PasswordLine::Refusal::busy) co_return refuse(Refusal::busy);
  if (!good) {
    ++hits_;
    co_return pass(exchange, *find_remembered(attempt.digest));
  }
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
      counter("sluice_basic_verifications_total", "Passwords that were verified, right or wrong.", line_.begun()),
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
