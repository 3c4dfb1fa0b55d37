#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "gateway/jwt/revocations.h"
#include "gateway/jwt/verifier.h"
#include "gateway/key_table.h"
#include "http/identity.h"

namespace sluice::gateway::jwt {

// The tokens that a policy does not accept any more, on one core: in a table, in a file, and of sessions that [login]
// has ended.
// Streams and sessions keep it, and ask it about the token of their request.
class RevokedTokens final : public http::Withdrawals {
 public:
  // Each may be null.
  RevokedTokens(std::unique_ptr<KeyTable> table, std::shared_ptr<const Revocations> file,
                std::shared_ptr<const Revocations> ended)
      : table_(std::move(table)) {
    if (file) file_.emplace(std::move(file));
    if (ended) ended_.emplace(std::move(ended));
  }

  // Whether a verified token with these claims is refused: as revoked, or because nobody knows.
  [[nodiscard]] std::optional<Refusal> refusal_of(const http::Claims& claims);
  // Whether it is known to be revoked.
  [[nodiscard]] bool has(const http::Claims& claims) override { return refusal_of(claims) == Refusal::revoked; }

 private:
  const std::unique_ptr<KeyTable> table_;
  std::optional<Revocations::View> file_;
  std::optional<Revocations::View> ended_;
};

}  // namespace sluice::gateway::jwt
