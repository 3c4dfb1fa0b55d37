#pragma once

#include <string_view>

#include "http/exchange.h"

namespace sluice::http {

// The attribute of a request that a policy has given an id.
struct RequestId {
  std::string_view text;  // valid as long as the attribute
};

// Empty if the request has no id.
[[nodiscard]] inline std::string_view request_id_of(const Exchange& exchange) {
  const auto* const id = exchange.attributes.find<RequestId>();
  return id != nullptr ? id->text : std::string_view{};
}

}  // namespace sluice::http
