#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/require.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/here.h"
#include "core/task.h"
#include "gateway/basic/password_line.h"
#include "gateway/jwt/revocations.h"
#include "http/exchange.h"
#include "http/handler.h"
#include "login/families.h"
#include "login/fields.h"
#include "login/keys.h"
#include "login/options.h"
#include "login/tries.h"
#include "services/databases.h"
#include "sql/database.h"

namespace sluice::login {

// [login], prepared. Immutable but for `ended`; shared by all cores.
struct Prepared {
  Options options;
  std::vector<Located<std::string>> origins;  // of the policy: whose pages may log in, besides the server's own
  std::shared_ptr<const Keys> keys;
  std::shared_ptr<gateway::jwt::Revocations> ended;  // sessions whose access tokens have not expired
  sql::Statement query;
  api::Guards guards;
  std::size_t token_limit = 0;  // bytes: of the policy
  std::string dummy;            // a hash that no password has, as costly as a new one
};

// One core's part of [login].
//
// A log-in executes the query, counts the try, verifies the password in a PasswordLine, and begins a family. An unknown
// user costs the same: the password is then verified against the hash of another user.
//
// Access tokens carry the session, `sid`: a hash of the family. When a family ends, its session is added to `ended` at
// once; one core of each process reads every second which families other processes have ended.
class Login {
 public:
  // `database`: the one that the options name.
  Login(std::shared_ptr<const Prepared> prepared, const core::Here& here, std::shared_ptr<sql::Database> database);
  Login(const Login&) = delete;

  // On the first core: follows the ends of families.
  void begin();
  void stop() { tasks_.cancel(); }

  [[nodiscard]] core::Task<http::Response> log_in(http::Exchange& exchange);
  [[nodiscard]] core::Task<http::Response> refresh(http::Exchange& exchange);
  [[nodiscard]] core::Task<http::Response> log_out(http::Exchange& exchange);
  [[nodiscard]] Readings readings() const;

 private:
  using Answer = std::optional<http::Response>;

  // A row of the query.
  struct User {
    std::string subject;
    std::string claims;                   // the other columns as JSON, without the braces
    std::optional<std::string> password;  // the hash
  };
  // Nothing: there is no such user. The error is the answer.
  core::Task<std::expected<std::optional<User>, http::Response>> find_user(const Fields& fields);
  // The fields that the query needs; the error is the refusal.
  [[nodiscard]] std::expected<Fields, http::Response> parameters_of(const Fields& fields) const;
  // A refusal if `require` does not hold for these claims.
  [[nodiscard]] Answer judge(http::Exchange& exchange, const std::string& payload);
  // Returns the hash that is stored from now on.
  core::Task<std::string> rehash(std::string network, std::string subject, std::string password, std::string before);
  // Nothing: the token is not accepted.
  core::Task<Answer> refresh_by(http::Exchange& exchange, RefreshToken token);

  // The claims of an access token as JSON.
  [[nodiscard]] std::string payload_of(const User& user, const RefreshToken& token, std::int64_t now_s) const;
  [[nodiscard]] http::Response answer(const std::string& payload, const RefreshToken& token, std::int64_t now_s,
                                      std::int64_t expires_s);
  [[nodiscard]] bool has_cookies() const { return prepared_->options.answer.value == AnswerBy::cookie; }
  // Browsers say of which origin a page is that sends a POST.
  [[nodiscard]] Answer refuse_origin(const http::Request& request) const;
  // The refresh tokens of a request; several only in cookies.
  core::Task<std::expected<std::vector<RefreshToken>, http::Response>> tokens_of(const http::Request& request) const;
  void add_cookie(http::Response& response, std::string_view name, std::string_view value, std::int64_t for_s) const;
  // Removes the cookies.
  void clear_cookies(http::Response& response) const;
  // 401: the refresh token is not accepted.
  [[nodiscard]] http::Response refuse_token(std::string_view detail) const;
  [[nodiscard]] http::Response failed(const sql::Error& error);
  void end_session(const std::string& session, std::int64_t now_s);
  [[nodiscard]] std::int64_t now_s() const;

  core::Task<void> follow();

  const std::shared_ptr<const Prepared> prepared_;
  core::Reactor& reactor_;
  const std::shared_ptr<sql::Database> database_;
  services::Databases databases_;
  Families families_;
  Tries tries_;
  gateway::basic::PasswordLine line_;
  TroubleLog trouble_{"[login]"};
  TroubleLog hashes_{"[login]"};
  std::string dummy_;  // the hash that the passwords of unknown users are verified against
  std::unordered_map<std::string, std::int64_t> known_;  // sessions that have ended, and when
  const bool leads_;
  core::TaskGroup tasks_;
  struct Counters {
    std::uint64_t logins = 0;
    std::uint64_t wrong = 0;
    std::uint64_t delayed = 0;
    std::uint64_t busy = 0;
    std::uint64_t refused = 0;
    std::uint64_t refreshes = 0;
    std::uint64_t reused = 0;
    std::uint64_t logouts = 0;
  } counters_;
};

// GET PATH/me: the claims of the request's token.
class Me final : public http::Handler {
 public:
  core::Async<http::Response> handle(http::Exchange& exchange) override;
};

}  // namespace sluice::login
