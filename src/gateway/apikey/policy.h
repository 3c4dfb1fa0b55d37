#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/apikey/options.h"
#include "gateway/changed_request.h"
#include "gateway/digest.h"
#include "gateway/key_table.h"
#include "gateway/place.h"
#include "gateway/policy.h"
#include "http/claims.h"

namespace sluice::gateway::apikey {

// One core's [policy.NAME] of type "api-key". A request must have a known key. The request then carries the key's
// claims: `sub`, or the columns of its row. Other requests are answered with 401 and `WWW-Authenticate: ApiKey`; with
// 400 if there are several keys, with 403 if the key is in a cookie that a page of another origin uses, and with 503 if
// the table of keys is stale.
class ApiKeyPolicy final : public PolicyOf<ApiKeyPolicy> {
 public:
  // `table`: null if the options list the keys.
  ApiKeyPolicy(const Options& options, std::unique_ptr<KeyTable> table);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override {
    return judge(exchange);
  }
  [[nodiscard]] bool owns_field(std::string_view name) const override { return place_.is_field(name); }
  [[nodiscard]] Readings readings() const override;

 private:
  enum class Refusal : std::uint8_t { missing, repeated, origin, unknown, away };
  using ByDigest = std::unordered_map<Digest, std::shared_ptr<const http::Claims>, DigestHash>;

  [[nodiscard]] std::optional<http::Response> judge(http::Exchange& exchange);
  // Returns null if no key has the digest, and nothing if the table is stale or the row is too large for claims.
  [[nodiscard]] std::optional<std::shared_ptr<const http::Claims>> find(const Digest& digest);
  [[nodiscard]] http::Response refuse(Refusal why);

  const Place place_;
  const std::vector<Located<std::string>> origins_;
  const bool pass_;
  const bool optional_;
  const std::string challenge_;
  const std::unique_ptr<KeyTable> table_;
  Sha256 sha256_;
  ByDigest keys_;        // all keys of the options; with a table, those looked up as of `version_`
  std::string version_;  // the table's version
  std::string scratch_, row_;
  ChangedRequests changed_;
  std::uint64_t accepted_ = 0;
  std::uint64_t anonymous_ = 0;
  std::array<std::uint64_t, 5> refusals_{};
};

}  // namespace sluice::gateway::apikey
