#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/task.h"
#include "services/databases.h"

namespace sluice::login {

// A refresh token as clients have it: "FAMILY.SECRET", each 32 bytes in base64url. The family is the row, and the
// secret changes with each use.
struct RefreshToken {
  std::string family;
  std::string secret;

  [[nodiscard]] static std::optional<RefreshToken> parse(std::string_view text);
  [[nodiscard]] std::string text() const { return family + '.' + secret; }
};

// The name of a family's session, in the table and in access tokens: a hash, which does not tell the family.
[[nodiscard]] std::string session_of(std::string_view family);

// The sessions of users, in a table of the database: one row for each log-in, with the hash of the refresh token that
// is valid, and that of the one before. A reader of the table can neither make a token nor end a session.
//
// The next secret is an HMAC of the secret before it, with a key of the row and one that is not in the database. If the
// token before the valid one is presented within the grace, the same successor is given out as the first time, by every
// node: the client has lost the answer, or a second tab of its browser has the old token. A token that is neither of
// the two has been stolen, or its successor has: the family ends.
class Families {
 public:
  struct Options {
    std::string table = "refresh_tokens";  // an identifier, quoted by the caller if it needs it
    Duration lifetime = 30 * 24h;          // of a family, from the log-in
    Duration grace = 10s;
    std::string pepper = {};  // the key that is not in the database; the same on all nodes
  };
  // `database` outlives the object.
  Families(services::Database& database, const Options& options);

  // The log-in that a family began with.
  struct User {
    std::string subject;
    std::string parameters;  // of the log-in without the password, as JSON: the statement is executed again with them
    std::string credential;  // a hash of the hash of the password
  };
  // Begins a family. `now_s`: seconds of the Unix epoch, here and below.
  [[nodiscard]] core::Task<std::expected<RefreshToken, sql::Error>> begin(User user, std::int64_t now_s);

  enum class Refusal : std::uint8_t {
    unknown,  // no such family, or it has ended
    expired,
    reused,  // a token that has been used before; its family has ended now
  };
  // A family whose token has been presented.
  struct Found {
    User user;
    RefreshToken next;           // to give out after rotate(); the same token again if it is younger than the grace
    std::int64_t expires_s = 0;  // of the family
    std::string hash;            // of the token that was presented
    bool is_rotated = false;     // rotate() has nothing to do
  };
  using Finding = std::expected<std::expected<Found, Refusal>, sql::Error>;
  [[nodiscard]] core::Task<Finding> find(RefreshToken token, std::int64_t now_s);
  // Makes `found.next` the valid token. False: another request has changed the family since find().
  [[nodiscard]] core::Task<std::expected<bool, sql::Error>> rotate(const Found& found, std::int64_t now_s);

  // Ends the family of this token, which must be valid or the one before; otherwise nothing happens. Returns its
  // subject.
  [[nodiscard]] core::Task<std::expected<std::optional<std::string>, sql::Error>> end(RefreshToken token,
                                                                                      std::int64_t now_s);
  [[nodiscard]] core::Task<std::expected<void, sql::Error>> end_session(std::string session, std::int64_t now_s);
  // Ends all families of the subject, and returns their sessions.
  [[nodiscard]] core::Task<std::expected<std::vector<std::string>, sql::Error>> end_all(std::string subject,
                                                                                        std::int64_t now_s);
  // The sessions that have ended at this time or later, on any node. The rows are kept for a day.
  struct Ended {
    std::string session;
    std::int64_t at_s = 0;
  };
  [[nodiscard]] core::Task<std::expected<std::vector<Ended>, sql::Error>> ended_since(std::int64_t since_s);
  // Removes families that have expired, or have ended a day ago.
  [[nodiscard]] core::Task<std::expected<std::uint64_t, sql::Error>> prune(std::int64_t now_s);
  // All statements, for `sluice check`.
  [[nodiscard]] std::vector<std::string_view> reading() const { return {find_, ended_}; }
  [[nodiscard]] std::vector<std::string_view> writing() const { return {insert_, rotate_, end_, end_all_, prune_}; }

 private:
  services::Database& database_;
  const std::int64_t lifetime_s_;
  const std::int64_t grace_s_;
  const std::string pepper_;
  // Statements.
  const std::string insert_;
  const std::string find_;
  const std::string rotate_;
  const std::string end_;
  const std::string end_all_;
  const std::string ended_;
  const std::string prune_;
};

}  // namespace sluice::login
