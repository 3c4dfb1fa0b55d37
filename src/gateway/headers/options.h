#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/policy_kind.h"
#include "gateway/template.h"
#include "http/fields.h"

namespace sluice::gateway::headers {

// One field of `set` and `add`.
struct ValueOptions {
  Located<std::string> value;

  static std::string check(std::string_view text) {
    const auto parsed = Template::parse(text);
    return parsed ? std::string{} : parsed.error();
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &ValueOptions::value,
            "The value of the field. `{claim.NAME}` stands for a claim of the request, `{path.NAME}` for a value of "
            "its path, `{request.id}` for its id and `{client.ip}` for the client's address; `{{` is a brace. A field "
            "whose value is empty is left out.",
            {.check = check});
    v.shorthand("value");
  }
};

// [policy.NAME.request] and [policy.NAME.response]
struct ChangeOptions {
  static constexpr int most = 64;

  std::vector<Named<ValueOptions>> set;
  std::vector<Named<ValueOptions>> add;
  std::vector<Located<std::string>> remove;
  Position position;

  static std::string check_name(std::string_view text) {
    return http::is_token(text) ? "" : "must be the name of a header field";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = ChangeOptions;
    v.field("set", &Self::set, "Fields by name that replace fields of the same name: `X-User = \"{claim.sub}\"`.",
            {.max = most});
    v.field("add", &Self::add, "Fields that are added to those of the same name.", {.max = most});
    v.field("remove", &Self::remove, "The names of fields that are removed.", {.max = most, .check = check_name});
    v.position(&Self::position);
  }
};

// [policy.NAME] with type = "headers"
struct Options {
  static constexpr PolicyKind kind{
      .name = "headers",
      .about = "Sets, adds and removes header fields of requests and of their answers. It never refuses a request.",
      .is_guard = false,
      .may_repeat = true};

  std::optional<ChangeOptions> request;
  std::optional<ChangeOptions> response;
  bool request_id = false;
  Position position;

  // The valid values.
  [[nodiscard]] std::vector<Template> templates() const;

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("request", &Self::request, "Changes to the request's header, before the endpoint or upstream gets it.");
    v.field("response", &Self::response,
            "Changes to the answer's header, whether Sluice or an upstream created the answer.");
    v.field("request_id", &Self::request_id,
            "Whether each request gets an id: the `X-Request-Id` from a trusted proxy, if it is 1 to 128 letters, "
            "digits, `.`, `_` and `-`; otherwise the trace id of the proxy's `traceparent`; otherwise a new one. The "
            "id is passed on with the request and is sent with the answer, logs show it as `request_id`, and SQL gets "
            "it from `request.id`.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::headers
