#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "gateway/basic/options.h"
#include "gateway/basic/password_line.h"
#include "gateway/changed_request.h"
#include "gateway/digest.h"
#include "gateway/policy.h"
#include "http/claims.h"

namespace sluice::gateway::basic {

// One core's [policy.NAME] of type "basic". A request must have the name and the password of a user (RFC 7617). The
// request then carries the name as the claim `sub`. Other requests are answered with 401.
//
// Passwords wait in a PasswordLine. If the user name is unknown, the password is
// verified against another user's hash, so that the time does not show whether a name exists. Correct credentials are
// remembered by the SHA-256 of a secret and the credentials.
class BasicPolicy final : public PolicyOf<BasicPolicy> {
 public:
  BasicPolicy(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  [[nodiscard]] Readings readings() const override;

 private:
  enum class Refusal : std::uint8_t { missing, repeated, scheme, wrong, busy };
  struct User {
    std::string name;
    std::string hash;
    std::shared_ptr<const http::Claims> claims;
  };
  struct Attempt {
    std::string network;         // of the client
    Digest digest;               // the key for remembering the result
    const User* user = nullptr;  // null: the name is unknown
    std::string hash;
    std::string password;
  };
  using Answer = std::optional<http::Response>;

  [[nodiscard]] core::Task<Answer> verify(http::Exchange& exchange, Attempt attempt);
  [[nodiscard]] const User* find_user(std::string_view name) const;
  // Null if it is not remembered.
  [[nodiscard]] const User* find_remembered(const Digest& digest);
  void remember(const Digest& digest, const User& user);
  [[nodiscard]] Answer pass(http::Exchange& exchange, const User& user);
  [[nodiscard]] http::Response refuse(Refusal why);

  core::Reactor& reactor_;
  const Duration cache_for_;
  const std::size_t cache_users_;
  const bool pass_;
  const bool optional_;
  const std::string challenge_;
  std::vector<User> users_;  // by name
  std::string secret_;
  Sha256 sha256_;
  std::string decoded_;
  PasswordLine line_;
  std::unordered_map<Digest, std::pair<const User*, Instant>, DigestHash> remembered_;  // valid until the Instant
  std::deque<std::pair<Digest, Instant>> oldest_;  // keys of remembered_, in the order in which they expire
  ChangedRequests changed_;
  std::uint64_t hits_ = 0;
  std::uint64_t anonymous_ = 0;
  std::array<std::uint64_t, 5> refusals_{};
};

}  // namespace sluice::gateway::basic
