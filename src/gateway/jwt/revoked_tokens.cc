#include "gateway/jwt/revoked_tokens.h"

namespace sluice::gateway::jwt {

std::optional<Refusal> RevokedTokens::refusal_of(const http::Claims& claims) {
  if (file_ && file_->has(claims)) return Refusal::revoked;
  if (ended_ && ended_->has(claims)) return Refusal::revoked;
  if (table_ == nullptr) return std::nullopt;
  if (!table_->is_fresh()) return Refusal::away;
  // The verifier has required the claim.
  return table_->contains(claims.find("jti")->text) ? std::optional(Refusal::revoked) : std::nullopt;
}

}  // namespace sluice::gateway::jwt
