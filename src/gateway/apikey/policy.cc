#include "gateway/apikey/policy.h"

#include <utility>

#include "base/buffer.h"
#include "base/json.h"
#include "http/identity.h"

namespace sluice::gateway::apikey {
namespace {

constexpr std::size_t least_key = 16;          // characters
constexpr std::size_t most_remembered = 4096;  // rows of a table

Place place_of(const Options& options) {
  using In = Place::In;
  if (options.query) return {In::query, options.query->value};
  if (options.cookie) return {In::cookie, options.cookie->value};
  return {In::header, options.header.value};
}

std::shared_ptr<const http::Claims> claims_of(std::string_view name) {
  Buffer json;
  json.append(R"({"sub":")");
  append_json_escaped(json, name);
  json.append("\"}");
  return http::Claims::parse(json.view());
}

}  // namespace

std::expected<Digest, std::string> parse_key(std::string_view text) {
  constexpr std::string_view prefix = "sha256:";
  Sha256 sha256;
  if (text.starts_with(prefix)) {
    const auto digest = Digest::parse(text.substr(prefix.size()));
    if (!digest) return std::unexpected("behind \"sha256:\" are 64 hexadecimal digits");
    if (*digest == sha256.of("")) return std::unexpected("is the digest of nothing, which is no key");
    return *digest;
  }
  if (text.size() < least_key) return std::unexpected("has at least 16 characters");
  for (const char c : text) {
    if (c <= 0x20 || c > 0x7e) return std::unexpected("is printable ASCII without spaces");
  }
  return sha256.of(text);
}

ApiKeyPolicy::ApiKeyPolicy(const Options& options, std::unique_ptr<KeyTable> table)
    : place_(place_of(options)),
      origins_(options.origins),
      pass_(options.pass),
      optional_(options.optional),
      challenge_("ApiKey realm=\"" + options.realm.value + "\""),
      table_(std::move(table)) {
  for (const auto& key : options.keys) {
    if (const auto digest = parse_key(key.value.value)) keys_.emplace(*digest, claims_of(key.name.value));
  }
}

std::optional<http::Response> ApiKeyPolicy::judge(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  using Count = FoundCredential::Count;
  const FoundCredential key = find_credential(place_, request, scratch_);
  if (key.count == Count::none) {
    if (!optional_) return refuse(Refusal::missing);
    ++anonymous_;
    exchange.attributes.set(http::Challenge{challenge_});
    hide_credential(place_, pass_, exchange, changed_);
    return std::nullopt;
  }
  // Another server may have checked a different one of the keys.
  if (key.count != Count::one) return refuse(Refusal::repeated);
  if (place_.in == Place::In::cookie && !may_use_cookie(request, origins_)) return refuse(Refusal::origin);
  if (key.text.empty()) return refuse(Refusal::unknown);
  auto claims = find(sha256_.of(key.text));
  if (!claims) return refuse(Refusal::away);
  if (*claims == nullptr) return refuse(Refusal::unknown);
  ++accepted_;
  exchange.attributes.set(http::Identity{.claims = std::move(*claims)});
  hide_credential(place_, pass_, exchange, changed_);
  return std::nullopt;
}

std::optional<std::shared_ptr<const http::Claims>> ApiKeyPolicy::find(const Digest& digest) {
  if (table_ != nullptr) {
    if (!table_->is_fresh()) return std::nullopt;
    if (table_->version() != version_) {
      keys_.clear();
      version_ = table_->version();
    }
  }
  const auto known = keys_.find(digest);
  if (known != keys_.end()) return known->second;
  if (table_ == nullptr || !table_->find(digest.hex(), row_)) return nullptr;
  auto claims = http::Claims::parse(row_);
  if (claims == nullptr) return std::nullopt;  // larger than claims may be
  if (keys_.size() >= most_remembered) keys_.clear();
  keys_.emplace(digest, claims);
  return claims;
}

Readings ApiKeyPolicy::readings() const {
  Readings all{counter("sluice_api_key_accepted_total", "Requests with a key that is known.", accepted_),
               counter("sluice_api_key_anonymous_total", "Requests without a key that went on.", anonymous_)};
  constexpr std::string_view names[] = {"missing", "repeated", "origin", "unknown", "away"};
  for (std::size_t i = 0; i < refusals_.size(); ++i) {
    all.push_back(counter("sluice_api_key_refusals_total", "Requests that were not let through.", refusals_[i],
                          label("reason", names[i])));
  }
  return all;
}

http::Response ApiKeyPolicy::refuse(Refusal why) {
  ++refusals_[static_cast<std::size_t>(why)];
  if (why == Refusal::repeated) return http::problem(400, "The request has more than one key.");
  if (why == Refusal::origin) {
    return http::problem(403, "The key is in a cookie, so the request needs an Origin that is allowed here.");
  }
  if (why == Refusal::away) {
    http::Response response = http::problem(503, "Keys cannot be verified now.");
    response.fields.add_trusted("Retry-After", "1");
    return response;
  }
  http::Response response =
      http::problem(401, why == Refusal::missing ? "The request has no key." : "The key is not known.");
  response.fields.add_trusted("WWW-Authenticate", challenge_);
  return response;
}

}  // namespace sluice::gateway::apikey
