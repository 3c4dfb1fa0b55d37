#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/policy_kind.h"
#include "http/fields.h"

namespace sluice::gateway::authrequest {

// [policy.NAME] with type = "auth-request"
struct Options {
  static constexpr PolicyKind kind{
      .name = "auth-request",
      .about =
          "Another server decides about each request. Sluice sends it a GET with the request's header. "
          "`X-Forwarded-Method` contains the method, `X-Forwarded-Uri` the normalised path and the query. If the "
          "server "
          "answers 2xx, the request passes. If it answers 3xx, 401, 403 or 429, the client gets this answer. In any "
          "other case the client gets 502, 503 or 504. `Set-Cookie` of a 2xx answer is added to the client's answer."};

  Located<std::string> upstream;
  Located<std::string> path{"/"};
  std::vector<Located<std::string>> copy;
  Position position;

  static std::string check_path(std::string_view text) {
    if (!text.starts_with('/')) return "must begin with \"/\"";
    for (const char c : text) {
      if (c <= 0x20 || c > 0x7e || c == '?' || c == '#') return "must be a path, in printable ASCII without spaces";
    }
    return "";
  }
  static std::string check_header(std::string_view text) {
    return http::is_token(text) ? "" : "must be the name of a header field";
  }

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("upstream", &Self::upstream, "The [[upstream]] that decides about requests.", {.required = true});
    v.field("path", &Self::path, "The path of the requests to this server.", {.check = check_path});
    v.field("copy", &Self::copy,
            "The header fields that Sluice copies from a 2xx answer to the request, such as `X-Auth-Request-User`. The "
            "client's own fields of these names are removed.",
            {.max = 64, .check = check_header});
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::authrequest
