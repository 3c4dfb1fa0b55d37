#include "gateway/proxy/hash_key.h"

#include <algorithm>

#include "http/claims.h"
#include "http/identity.h"

namespace sluice::gateway {
namespace {

// The value of a cookie (RFC 6265, 4.2.1).
std::optional<std::string_view> find_cookie(const http::Request& request, std::string_view name) {
  for (const auto& [field, value] : request.fields) {
    if (!http::same_name(field, "cookie")) continue;
    for (std::string_view rest = value; !rest.empty();) {
      std::string_view pair = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
      pair.remove_prefix(std::min(pair.size(), pair.find_first_not_of(' ')));
      if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
        return pair.substr(name.size() + 1);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> value_of(const HashKey& key, const http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  switch (key.kind) {
    case HashKey::Kind::client:
      return request.peer;
    case HashKey::Kind::path:
      return request.segments;
    case HashKey::Kind::header:
      if (!request.has_field(key.name)) return std::nullopt;
      return request.field(key.name);
    case HashKey::Kind::cookie:
      return find_cookie(request, key.name);
    case HashKey::Kind::claim: {
      const http::Claims* const claims = http::claims_of(exchange);
      const http::Claim* const claim = claims ? claims->find(key.name) : nullptr;
      if (claim == nullptr) return std::nullopt;
      return claim->text;
    }
  }
  return std::nullopt;
}

}  // namespace sluice::gateway
