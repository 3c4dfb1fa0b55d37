#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/policy_kind.h"

namespace sluice::gateway::basic {

// One of [policy.NAME.users].
struct UserOptions {
  std::string hash;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("hash", &UserOptions::hash,
            "The password's hash, as `sluice hash-password` prints it: `\"$argon2id$...\"`. The hashes of `htpasswd` "
            "by bcrypt (`$2y$...`) and MD5 (`$apr1$...`) are accepted too.",
            {.required = true});
    v.shorthand("hash");
  }
};

// [policy.NAME] with type = "basic"
struct Options {
  static constexpr PolicyKind kind{
      .name = "basic",
      .about =
          "A request must carry a user's name and password, `Authorization: Basic ...`. Without valid ones it is "
          "answered 401, and browsers then ask the user for them.",
      .gives_claims = true,
      .instead = "a policy may have several \"users\""};

  std::vector<Named<UserOptions>> users;  // those of the file too, once it has been read
  std::optional<Located<std::string>> file;
  Located<std::string> realm{"sluice"};
  std::uint32_t queue = 16;
  Duration cache_for = 5min;
  std::uint32_t cache_users = 1024;
  bool pass = false;
  bool optional = false;
  Position position;

  static std::string check_realm(std::string_view text) {
    for (const char c : text) {
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
        return "must be printable ASCII without quotes and backslashes";
    }
    return text.empty() ? "must not be empty" : "";
  }

  // Adds the users of an htpasswd file's text. Returns what is wrong with it, or an empty string.
  [[nodiscard]] std::string add_users(std::string_view text);
  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("users", &Self::users,
            "The users who may pass: each name with the hash of the user's password. The name becomes the claim "
            "`sub`.");
    v.field(
        "file", &Self::file,
        "A file with more users, as `htpasswd -B` writes it: a line NAME:HASH for each. Relative paths start at the "
        "folder of the configuration file. Sluice reads it again whenever it reads the configuration.");
    v.field("realm", &Self::realm,
            "The realm in the `WWW-Authenticate` field of a 401, which browsers show when they ask for the password.",
            {.check = check_realm});
    v.field("queue", &Self::queue,
            "How many requests on each core may wait until their password is verified; passwords are verified one at "
            "a time. One client address (one /64 network of IPv6) may have half of the places. Further requests "
            "are answered 503.",
            {.min = 1, .max = 10'000});
    v.field("cache_for", &Self::cache_for,
            "How long each core remembers a correct password, as a keyed hash, so that it is not verified again. "
            "`0`: passwords are not remembered.",
            {.min = 0s, .max = 24h});
    v.field("cache_users", &Self::cache_users, "How many passwords each core remembers at the same time.",
            {.max = 1'000'000});
    v.field("pass", &Self::pass, "Whether `Authorization` is passed on with the request, for example to an upstream.");
    v.field("optional", &Self::optional,
            "Whether a request without `Authorization` passes, without claims. A request with a wrong password is "
            "refused in any case.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::basic
