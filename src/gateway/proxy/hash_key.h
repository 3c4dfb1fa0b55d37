#pragma once

#include <optional>
#include <string_view>

#include "gateway/proxy/options.h"
#include "http/exchange.h"

namespace sluice::gateway {

// The value that is hashed; nothing if the request lacks it. The view lives as long as the request.
[[nodiscard]] std::optional<std::string_view> value_of(const HashKey& key, const http::Exchange& exchange);

}  // namespace sluice::gateway
