#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "http/claims.h"

namespace sluice::gateway::jwt {

// Reads a NumericDate: seconds, maybe with a fraction (RFC 7519, 2). Returns false if the claim exists and is not one.
[[nodiscard]] inline bool read_date(const http::Claims& claims, std::string_view name, std::optional<double>& date) {
  const http::Claim* claim = claims.find(name);
  if (claim == nullptr) return true;
  if (claim->kind != http::Claim::Kind::number) return false;
  double seconds = 0;
  const auto [end, error] = std::from_chars(claim->text.data(), claim->text.data() + claim->text.size(), seconds);
  if (error != std::errc() || end != claim->text.data() + claim->text.size()) return false;
  date = seconds;
  return true;
}

}  // namespace sluice::gateway::jwt
