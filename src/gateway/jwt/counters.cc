#include "gateway/jwt/counters.h"

namespace sluice::gateway::jwt {

Readings Counters::readings() const {
  Readings all{
      counter("sluice_jwt_cache_hits_total", "Requests whose token was verified before.", hits),
      counter("sluice_jwt_verifications_total", "Tokens that were verified, and good.", verifications),
      counter("sluice_jwt_anonymous_total", "Requests without a token that went on.", anonymous),
      gauge("sluice_jwt_cache_tokens", "Verified tokens that are remembered.", cached_tokens),
      gauge("sluice_jwt_cache_bytes", "Memory of cached tokens.", cached_bytes),
  };
  for (std::size_t i = 0; i < refusal_count; ++i) {
    all.push_back(counter("sluice_jwt_refusals_total", "Requests that were not let through.", refusals[i],
                          label("reason", name_of(static_cast<Refusal>(i)))));
  }
  return all;
}

}  // namespace sluice::gateway::jwt
