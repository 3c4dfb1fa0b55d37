#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/origins.h"
#include "gateway/policy_kind.h"
#include "http/fields.h"

namespace sluice::gateway::cors {

// [policy.NAME] with type = "cors"
struct Options {
  static constexpr PolicyKind kind{
      .name = "cors",
      .about =
          "Allows scripts of pages from other origins to call the route from a browser. This protects nothing: "
          "requests that are not from a browser always pass. The policy is applied before all others, wherever it "
          "stands in `use`.",
      .is_guard = false,
      .instead = "a policy may have several \"origins\"",
      .is_first = true};

  std::vector<Located<std::string>> origins;
  bool credentials = false;
  std::vector<std::string> headers = {"*"};
  std::vector<std::string> expose = {
      "ETag",  "Location",    "Row-Count",        "X-Total-Count",       "Age",
      "Allow", "Retry-After", "WWW-Authenticate", "Content-Disposition", "Content-Range"};
  Duration max_age = 10min;

  static std::string check_header(std::string_view text) {
    return text == "*" || http::is_token(text) ? "" : "must be the name of a header field";
  }

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("origins", &Self::origins,
            "The origins whose pages may call the route: `\"https://app.example\"`, `\"https://*.app.example\"` for "
            "every host below that, or `\"*\"` for any origin.",
            {.required = true, .check = check_origin});
    v.field("credentials", &Self::credentials,
            "Whether scripts may let the browser send its cookies and client certificates. It cannot be used with "
            "the origin `\"*\"`. A token that a script itself puts into `Authorization` does not need this.");
    v.field("headers", &Self::headers, "The header fields that scripts may send. `\"*\"`: whichever they ask for.",
            {.check = check_header});
    v.field("expose", &Self::expose,
            "The header fields of answers that scripts may read, in addition to the few that browsers always allow.",
            {.check = check_header});
    v.field("max_age", &Self::max_age, "How long browsers may remember these permissions before they ask again.",
            {.min = 0s, .max = 24h});
  }
};

}  // namespace sluice::gateway::cors
