#include "api/password.h"

#include <algorithm>
#include <utility>

#include "api/common_passwords.h"

namespace sluice::api {

std::string PasswordRules::fault_of(std::string_view password) const {
  if (password.size() > most_bytes) return "must have at most " + std::to_string(most_bytes) + " bytes";
  const auto continues = [](char c) { return (c & 0xc0) == 0x80; };  // a character of UTF-8
  const auto characters = password.size() - static_cast<std::size_t>(std::ranges::count_if(password, continues));
  if (characters < min_length) return "must have at least " + std::to_string(min_length) + " characters";
  if (password.contains('\0')) return "holds a NUL character";
  if (!allows_common && is_common_password(password)) return "is a common password, which is easily guessed";
  return {};
}

std::shared_ptr<const PasswordRules> password_rules(const ParamOptions& options) {
  if (!options.hash) return nullptr;
  PasswordRules rules;
  if (options.min_length) rules.min_length = options.min_length->value;
  if (options.common) rules.allows_common = options.common->value;
  return std::make_shared<const PasswordRules>(rules);
}

std::optional<std::string_view> Passwords::hash_of(std::string_view key, std::string_view password) {
  auto found = std::ranges::find(all_, key, &One::key);
  if (found == all_.end()) {
    all_.push_back({.key = std::string(key), .password = std::string(password), .hash = {}});
    return std::nullopt;
  }
  if (found->hash.empty()) return std::nullopt;
  return found->hash;
}

core::Task<bool> Passwords::hash_all(PasswordHasher& hasher, std::string_view peer) {
  for (One& one : all_) {
    if (!one.hash.empty()) continue;
    auto hash = co_await hasher.hash(peer, std::move(one.password));
    if (!hash) co_return false;
    one.hash = std::move(*hash);
    one.password.clear();
  }
  co_return true;
}

}  // namespace sluice::api
