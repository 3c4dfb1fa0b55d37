#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/declare.h"
#include "gateway/apikey/options.h"
#include "gateway/authrequest/options.h"
#include "gateway/basic/options.h"
#include "gateway/cors/options.h"
#include "gateway/headers/options.h"
#include "gateway/ip/options.h"
#include "gateway/jwt/options.h"
#include "gateway/limits/options.h"
#include "gateway/mtls/options.h"
#include "gateway/query/options.h"

namespace sluice::gateway {

// The options of all kinds of policy, in the order of the reference. To add a kind, add its options.
using PolicyKinds = std::tuple<jwt::Options, cors::Options, ip::Options, mtls::Options, apikey::Options, basic::Options,
                               authrequest::Options, headers::Options, query::Options, limits::RateLimitOptions,
                               limits::ConcurrencyOptions, limits::BodyLimitOptions>;

// The index of a kind in PolicyKinds.
enum class PolicyType : std::uint8_t {};

namespace detail {
template <class... Kinds>
constexpr std::array<PolicyKind, sizeof...(Kinds)> kinds_of(std::tuple<Kinds...>*) {
  return {Kinds::kind...};
}
template <class Options, class... Kinds>
constexpr PolicyType type_of(std::tuple<Kinds...>*) {
  std::uint8_t index = 0;
  (void)((std::is_same_v<Options, Kinds> || (++index, false)) || ...);
  return PolicyType{index};
}
template <class Options>
struct OptionsOfKind {
  Options options;
};
template <class Kinds>
struct OptionsOfAll;
template <class... Kinds>
struct OptionsOfAll<std::tuple<Kinds...>> : OptionsOfKind<Kinds>... {};
}  // namespace detail

inline constexpr auto policy_kinds = detail::kinds_of(static_cast<PolicyKinds*>(nullptr));
template <class Options>
inline constexpr PolicyType policy_type = detail::type_of<Options>(static_cast<PolicyKinds*>(nullptr));
[[nodiscard]] constexpr const PolicyKind& kind_of(PolicyType type) {
  return policy_kinds[static_cast<std::size_t>(type)];
}

inline NameOf<PolicyType> names_of(PolicyType) {
  NameOf<PolicyType> names;
  for (const PolicyKind& kind : policy_kinds) {
    names.emplace_back(kind.name, static_cast<PolicyType>(names.size()));
  }
  return names;
}

[[nodiscard]] constexpr bool gives_claims(PolicyType type) { return kind_of(type).gives_claims; }

// [policy.NAME]: the type, and the options of all kinds, of which only those of the type are set.
struct PolicyOptions : detail::OptionsOfAll<PolicyKinds> {
  Located<PolicyType> type;
  Located<bool> dry_run = {false};

  template <class Options>
  [[nodiscard]] bool is() const {
    return type.value == policy_type<Options>;
  }
  template <class Options>
  [[nodiscard]] const Options& of() const {
    return detail::OptionsOfKind<Options>::options;
  }
  template <class Options>
  [[nodiscard]] Options& of() {
    return detail::OptionsOfKind<Options>::options;
  }
  [[nodiscard]] const PolicyKind& kind() const { return kind_of(type.value); }
  // Calls `fn` with the options of the type.
  template <class Fn>
  void visit(Fn fn) const {
    [&]<class... Kinds>(std::tuple<Kinds...>*) {
      (void)((is<Kinds>() && (fn(of<Kinds>()), true)) || ...);
    }(static_cast<PolicyKinds*>(nullptr));
  }

  // The [[resident]] table that the policy reads, if it names one.
  [[nodiscard]] const std::optional<Located<std::string>>& table() const {
    return is<jwt::Options>() ? of<jwt::Options>().revoked : of<apikey::Options>().table;
  }

  // The header fields of requests that its keys name and that decide about a request.
  [[nodiscard]] std::vector<std::string> read_fields() const {
    std::vector<std::string> names;
    visit([&](const auto& options) {
      if constexpr (requires { options.read_fields(); }) names = options.read_fields();
    });
    return names;
  }

  // The options without keys. A policy that differs in its keys alone goes on with the new ones.
  [[nodiscard]] PolicyOptions without_keys() const {
    PolicyOptions rest = *this;
    rest.of<jwt::Options>() = of<jwt::Options>().without_keys();
    return rest;
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = PolicyOptions;
    v.field("type", &Self::type, "The type of the policy. Each type has its own keys.", {.required = true});
    v.field("dry_run", &Self::dry_run,
            "`true`: the policy only counts the requests that it would refuse, and lets them continue. Requests that "
            "it refuses have no claims from it.");
    [&]<class... Kinds>(std::tuple<Kinds...>*) {
      (v.variant(&Self::type, policy_type<Kinds>, static_cast<Kinds Self::*>(&detail::OptionsOfKind<Kinds>::options),
                 Kinds::kind.about),
       ...);
    }(static_cast<PolicyKinds*>(nullptr));
  }
};

}  // namespace sluice::gateway
