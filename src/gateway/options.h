#pragma once

#include <cstdint>

#include "base/declare.h"
#include "gateway/cors/options.h"
#include "gateway/jwt/options.h"

namespace sluice::gateway {

enum class PolicyType : std::uint8_t { jwt, cors };

inline NameOf<PolicyType> names_of(PolicyType) { return {{"jwt", PolicyType::jwt}, {"cors", PolicyType::cors}}; }

// [policy.NAME]
struct PolicyOptions {
  Located<PolicyType> type;
  jwt::Options jwt;
  cors::Options cors;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = PolicyOptions;
    v.field("type", &Self::type, "What the policy does, and which of the following keys it has.", {.required = true});
    v.variant(&Self::type, PolicyType::jwt, &Self::jwt,
              "A request must carry a signed token, `Authorization: Bearer ...`, and is answered 401 without.");
    v.variant(
        &Self::type, PolicyType::cors, &Self::cors,
        "Scripts of pages from other origins may call the route from a browser. This is no guard: a request that is "
        "not from a browser passes whatever it says. It is asked before all other policies, wherever it stands in "
        "`use`.");
  }
};

}  // namespace sluice::gateway
