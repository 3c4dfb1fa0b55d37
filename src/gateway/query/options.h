#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/policy_kind.h"
#include "gateway/template.h"

namespace sluice::gateway::query {

// One parameter of `set` and `add`.
struct ValueOptions {
  Located<std::string> value;

  static std::string check(std::string_view text) {
    const auto parsed = Template::parse(text);
    return parsed ? std::string{} : parsed.error();
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &ValueOptions::value,
            "The value of the parameter, not encoded, with the same placeholders as the fields of the type `headers`. "
            "A parameter whose value is empty is left out.",
            {.check = check});
    v.shorthand("value");
  }
};

// [policy.NAME] with type = "query"
struct Options {
  static constexpr int most = 64;
  static constexpr PolicyKind kind{
      .name = "query",
      .about =
          "Sets, adds and removes parameters of the query string, before the endpoint or upstream gets the request. "
          "It never refuses a request.",
      .is_guard = false,
      .may_repeat = true};

  std::vector<Named<ValueOptions>> set;
  std::vector<Named<ValueOptions>> add;
  std::vector<Located<std::string>> remove;

  // The valid values.
  [[nodiscard]] std::vector<Template> templates() const;

  // Checks the names, and that there are any.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("set", &Self::set, "Parameters by name that replace those of the same name: `tenant = \"{claim.tenant}\"`.",
            {.max = most});
    v.field("add", &Self::add, "Parameters that are added to those of the same name.", {.max = most});
    v.field("remove", &Self::remove, "The names of parameters that are removed.", {.max = most});
  }
};

}  // namespace sluice::gateway::query
