#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "base/declare.h"
#include "gateway/jwt/token.h"
#include "http/fields.h"

namespace sluice::login {

// [login.refresh]
struct RefreshOptions {
  Duration lifetime = 30 * 24h;
  Located<std::string> table{"refresh_tokens"};

  static std::string check_table(std::string_view text) { return text.empty() ? "must not be empty" : ""; }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("for", &RefreshOptions::lifetime,
            "How long a log-in lasts: refresh tokens are valid until then, however often they are used.",
            {.min = 1min, .max = 400 * 24h});
    v.field("table", &RefreshOptions::table,
            "The table with the log-ins. `sluice login sql` prints the statements that make it.",
            {.check = check_table});
  }
};

// [login.cookies]
struct CookieOptions {
  Located<std::string> access;   // once loaded, never empty
  Located<std::string> refresh;  // likewise
  std::optional<bool> secure;    // likewise

  static std::string check_name(std::string_view text) { return http::is_token(text) ? "" : "must be a cookie's name"; }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("access", &CookieOptions::access,
            "The name of the cookie with the access token. Without it, `__Host-access`, or `access` if cookies are not "
            "`secure`.",
            {.check = check_name});
    v.field("refresh", &CookieOptions::refresh,
            "The name of the cookie with the refresh token. Without it, `__Host-refresh`, or `refresh`.",
            {.check = check_name});
    v.field("secure", &CookieOptions::secure,
            "Whether the cookies have `Secure`, so that browsers send them over TLS only. Without it, `true`, unless "
            "all of [server] `listen` are addresses of the loopback without TLS, and there are no `trusted_proxies`.");
  }
};

// One claim of [login.claims].
struct ClaimOptions {
  std::string value;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &ClaimOptions::value, "The value of the claim, a text.", {.required = true});
    v.shorthand("value");
  }
};

// [login.users]
struct UserOptions {
  Located<std::string> table;
  Located<std::string> name{"email"};
  Located<std::string> password{"password"};

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("table", &UserOptions::table, "The table of the users.", {.required = true});
    v.field("name", &UserOptions::name, "Its column with the names that users log in with.");
    v.field("password", &UserOptions::password, "Its column with the hashes of passwords.");
  }
};

enum class AnswerBy : std::uint8_t { cookie, body };
inline NameOf<AnswerBy> names_of(AnswerBy) { return {{"cookie", AnswerBy::cookie}, {"body", AnswerBy::body}}; }

// [login]
struct Options {
  Located<std::string> path{"/auth"};
  Located<std::string> database;  // once loaded, the name of an existing database
  Located<std::string> query;
  Located<std::string> policy;
  std::optional<Located<std::string>> signing_key;
  std::vector<Located<std::string>> signing_keys;  // after loading, paths are relative to the working directory
  std::optional<Located<gateway::jwt::Algorithm>> algorithm;
  Duration access = 15min;
  RefreshOptions refresh;
  Located<std::string> tries{"login_tries"};
  Located<AnswerBy> answer{AnswerBy::cookie};
  CookieOptions cookies;
  std::vector<Named<ClaimOptions>> claims;
  OneOrMore<api::RequireOptions> require;
  std::optional<Located<std::string>> rehash;
  std::optional<UserOptions> users;
  std::string jwks = "/.well-known/jwks.json";
  std::uint32_t queue = 64;
  std::vector<Located<std::string>> use;
  Located<bool> is_public{true};  // no key: the policies of [defaults] would ask for the tokens that are given out here
  bool access_log = true;
  Position position;

  static std::string check_path(std::string_view text) {
    const bool is_path = text.starts_with('/') && text.size() > 1 && !text.ends_with('/') &&
                         text.find_first_of("{}*? ") == std::string_view::npos;
    return is_path ? "" : "must be a path without parameters, such as \"/auth\"";
  }
  static std::string check_jwks(std::string_view text) { return text.empty() ? "" : check_path(text); }
  static std::string check_text(std::string_view text) { return text.empty() ? "must not be empty" : ""; }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("path", &Self::path,
            "The path below which users log in: `POST PATH/login`, `/refresh` and `/logout`, and `GET PATH/me`.",
            {.check = check_path});
    v.field("database", &Self::database,
            "The database of the users. If there is only one database, it is the default.");
    v.field("query", &Self::query,
            "The statement that finds a user: `SELECT id AS sub, role, password FROM users WHERE email = :email`. Its "
            "parameters are fields of the body, beside `password`. The column `password` is the hash, and NULL for a "
            "user who cannot log in. `sub` and all other columns become claims of the access token. A refresh executes "
            "the statement again.",
            {.required = true, .check = check_text});
    v.field("policy", &Self::policy,
            "The name of the policy of type `jwt` that takes the tokens. It has no keys of its own.",
            {.required = true});
    v.field("signing_key", &Self::signing_key,
            "The private key that signs access tokens, as text: `\"${file:keys/login.key.pem}\"`. `sluice keys` makes "
            "one. Either this or `signing_keys` is required.");
    v.field("signing_keys", &Self::signing_keys,
            "Files with private keys. The first signs, and the policy takes the tokens of all: to change the key, put "
            "the new one in front, and remove the old one after `access`. A reload reads the files again.",
            {.max = 16, .check = check_text});
    v.field("algorithm", &Self::algorithm,
            "The algorithm of the signatures. Without it, the first one for the kind of key, such as EdDSA or ES256.");
    v.field("access", &Self::access,
            "How long an access token is valid. The policy refuses it earlier if its user has logged out.",
            {.min = 10s, .max = 24h});
    v.field("refresh", &Self::refresh, "Refresh tokens, which get new access tokens.");
    v.field("tries", &Self::tries,
            "The table that counts tries to log in. After four that have failed, an account has to wait before the "
            "next try from the same network, first one second, then twice as long each time, up to 15 minutes.",
            {.check = check_text});
    v.field("answer", &Self::answer,
            "How clients get their tokens. `cookie`: as cookies that scripts cannot read, for pages. `body`: as JSON, "
            "for other programs.");
    v.field("cookies", &Self::cookies, "The cookies of `answer = \"cookie\"`.");
    v.field("claims", &Self::claims,
            "Claims of every access token: `{ iss = \"https://api.example\", aud = \"api\" }`. `iss` and `aud` must be "
            "among those that the policy accepts.");
    v.field("require", &Self::require,
            "Conditions for a user whose password is right, and for each refresh: `{ that = \"eq(claim.active, "
            "true)\", detail = \"The account is locked.\" }`. The claims are the columns of `query`.");
    v.field("rehash", &Self::rehash,
            "A statement that stores a new hash, `UPDATE users SET password = :password WHERE id = :sub`. It is "
            "executed after a log-in by a hash of another kind than Sluice's own, such as bcrypt.",
            {.check = check_text});
    v.field("users", &Self::users, "The table of users, for `sluice user`.");
    v.field("jwks", &Self::jwks,
            "The path of the public keys (RFC 7517), so that other services can verify the tokens. Empty: they are not "
            "served.",
            {.check = check_jwks});
    v.field("queue", &Self::queue,
            "How many passwords wait on each core; one is verified at a time. Further log-ins are answered 503.",
            {.min = 2, .max = 10'000});
    v.field("use", &Self::use,
            "The names of the policies that apply to all these paths, such as a rate limit. The policies of [defaults] "
            "do not apply to them.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::login
