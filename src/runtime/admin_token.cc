#include "runtime/admin_token.h"

#include <algorithm>

#include <openssl/crypto.h>

#include "http/fields.h"

namespace sluice::runtime {

std::string check_admin_token(std::string_view token) {
  constexpr std::size_t shortest = 16;
  constexpr std::string_view others = "-._~+/=";  // RFC 6750, section 2.1
  const auto is_allowed = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || others.contains(c);
  };
  if (token.size() >= shortest && std::ranges::all_of(token, is_allowed)) return {};
  return "must have at least 16 letters, digits and characters of -._~+/=";
}

bool has_admin_token(std::string_view authorization, std::string_view token) {
  constexpr std::string_view scheme = "Bearer ";
  if (!http::same_name(authorization.substr(0, scheme.size()), scheme)) return false;
  authorization.remove_prefix(scheme.size());
  return authorization.size() == token.size() && CRYPTO_memcmp(authorization.data(), token.data(), token.size()) == 0;
}

}  // namespace sluice::runtime
