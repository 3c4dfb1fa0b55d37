#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/digest.h"
#include "gateway/origins.h"
#include "gateway/policy_kind.h"
#include "http/fields.h"

namespace sluice::gateway::apikey {

// One of [policy.NAME.keys]: "sha256:" and 64 hexadecimal digits, or the key itself. The error says what is wrong.
[[nodiscard]] std::expected<Digest, std::string> parse_key(std::string_view text);

struct KeyOptions {
  std::string value;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &KeyOptions::value,
            "Either `sha256:` followed by the key's SHA-256 in hexadecimal digits, or the key itself, at least 16 "
            "characters: `\"${PARTNER_KEY}\"`.",
            {.required = true});
    v.shorthand("value");
  }
};

// [policy.NAME] with type = "api-key"
struct Options {
  static constexpr PolicyKind kind{.name = "api-key",
                                   .about = "A request must carry a known key. Without one it is answered 401.",
                                   .gives_claims = true,
                                   .instead = "a policy may have several \"keys\""};

  Located<std::string> header{"X-API-Key"};
  std::optional<Located<std::string>> query;
  std::optional<Located<std::string>> cookie;
  std::vector<Located<std::string>> origins;
  std::vector<Named<KeyOptions>> keys;
  std::optional<Located<std::string>> table;
  bool pass = false;
  bool optional = false;
  Located<std::string> realm{"sluice"};
  Position position;

  static std::string check_header(std::string_view text) {
    return http::is_token(text) ? "" : "must be the name of a header field";
  }
  static std::string check_parameter(std::string_view text) {
    for (const char c : text) {
      if (c <= 0x20 || c > 0x7e) return "must be printable ASCII without spaces";
    }
    return text.empty() ? "must not be empty" : "";
  }
  static std::string check_realm(std::string_view text) {
    for (const char c : text) {
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
        return "must be printable ASCII without quotes and backslashes";
    }
    return text.empty() ? "must not be empty" : "";
  }

  // The header field that may hold the key.
  [[nodiscard]] std::vector<std::string> read_fields() const {
    return query || cookie ? std::vector<std::string>() : std::vector{header.value};
  }

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("header", &Self::header, "The header field that holds the key.", {.check = check_header});
    v.field("query", &Self::query, "Instead of `header`: the query parameter that holds the key.",
            {.check = check_parameter});
    v.field("cookie", &Self::cookie, "Instead of `header`: the cookie that holds the key.", {.check = check_header});
    v.field(
        "origins", &Self::origins,
        "With `cookie`: the origins, besides the request's own, whose pages may use the key to open WebSockets, and "
        "for other methods than GET, HEAD and OPTIONS: `\"https://app.example\"`, or "
        "`\"https://*.app.example\"` for every host below that. From other origins such a request is answered "
        "403.",
        {.check = check_origin});
    v.field("keys", &Self::keys,
            "The keys, each under the name of its owner. That name becomes the request's claim `sub`.");
    v.field("table", &Self::table,
            "Instead of `keys`: the name of the [[resident]] table that has the keys. Its `key` is the column with "
            "the keys' SHA-256 in lower-case hexadecimal digits. All columns of the row become claims.");
    v.field("pass", &Self::pass, "Whether the key is passed on with the request, for example to an upstream.");
    v.field("optional", &Self::optional,
            "Whether a request without a key passes, without claims. A request with an unknown key is refused in any "
            "case.");
    v.field("realm", &Self::realm, "The realm in the `WWW-Authenticate` field of a 401.", {.check = check_realm});
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::apikey
