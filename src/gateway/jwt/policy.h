#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/reactor.h"
#include "gateway/changed_request.h"
#include "gateway/jwt/cache.h"
#include "gateway/jwt/counters.h"
#include "gateway/jwt/key_source.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/revocations.h"
#include "gateway/jwt/revoked_tokens.h"
#include "gateway/jwt/verifier.h"
#include "gateway/key_table.h"
#include "gateway/place.h"
#include "gateway/policy.h"

namespace sluice::gateway::jwt {

// One core's [policy.NAME] of type "jwt". A request must have a valid token. The request then carries the token's
// claims. Other requests are answered with 401 and the challenge of RFC 6750, 3; with 400 if there are several tokens,
// and with 403 if the token is valid but does not permit the request, or is in a cookie that a page of another origin
// uses.
class JwtPolicy final : public PolicyOf<JwtPolicy> {
 public:
  // `source`: fetches the keys, if they are at a URL. `revoked` and `revocations`: the table and
  // the file that the options name, else null. `ended`: the sessions that [login] has ended, if its tokens are taken.
  JwtPolicy(const Options& options, std::shared_ptr<const CurrentKeys> keys, const core::Reactor& reactor,
            std::shared_ptr<KeySource> source = nullptr, std::unique_ptr<KeyTable> revoked = nullptr,
            std::shared_ptr<const Revocations> revocations = nullptr,
            std::shared_ptr<const Revocations> ended = nullptr);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override;

  [[nodiscard]] bool owns_field(std::string_view name) const override {
    return std::ranges::any_of(sources_, [&](const Source& source) { return source.place.is_field(name); });
  }
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] Readings readings() const override { return counters().readings(); }

 private:
  using Answer = std::optional<http::Response>;

  // A token, or why the request has no usable one.
  using Token = std::expected<std::string_view, Refusal>;
  struct Source {
    Place place;
    std::string scratch;  // the token, if it had to be decoded
  };

  // New keys clear the cache.
  void take_keys();
  // Nothing if the request may pass.
  [[nodiscard]] std::optional<Refusal> judge(http::Exchange& exchange);
  [[nodiscard]] std::optional<Refusal> judge_token(http::Exchange& exchange, std::string_view token);
  // Looks at all sources.
  [[nodiscard]] Token find_token(const http::Request& request);
  // Removes the tokens that are not passed on.
  void hide_tokens(http::Exchange& exchange);
  // Whether new keys may be fetched for a token that was refused for this reason.
  [[nodiscard]] bool may_fetch_after(Refusal refusal) const;
  [[nodiscard]] core::Task<Answer> judge_after_fetch(http::Exchange& exchange);
  // Lets the request pass unless the token was revoked.
  [[nodiscard]] std::optional<Refusal> let_pass(http::Exchange& exchange, std::shared_ptr<const http::Claims> claims,
                                                double ends_s) const;
  [[nodiscard]] http::Response refuse(Refusal why);

  const core::Reactor& reactor_;
  const bool optional_;
  const std::size_t token_limit_;
  std::vector<Source> sources_;  // empty: only Authorization
  const std::vector<Located<std::string>> origins_;
  const bool pass_;
  const std::optional<Place> hidden_;  // a cookie that upstreams do not get either
  const std::shared_ptr<KeySource> source_;
  const std::shared_ptr<RevokedTokens> revoked_;  // null: none can be revoked
  CurrentKeys::View latest_;
  std::shared_ptr<const KeySet> keys_;  // those of `verifier_` and `cache_`
  Verifier verifier_;
  Cache cache_;
  Counters counters_;
  std::array<std::string, refusal_count> challenges_;  // WWW-Authenticate
  ChangedRequests changed_;
};

}  // namespace sluice::gateway::jwt
