#include "app/components/passwords/passwords.h"

#include <array>
#include <utility>

#include "gateway/basic/password.h"
#include "gateway/limits/key.h"

namespace sluice::app {
namespace {

constexpr std::size_t most_passwords = 16;  // that wait on one core

}  // namespace

PasswordHashes::PasswordHashes(const core::Here& here)
    : line_(here.reactor, here.mailbox, here.threads, most_passwords) {}

core::Task<std::optional<std::string>> PasswordHashes::hash(std::string_view peer, std::string password) {
  std::array<char, 16> room;
  std::string network(gateway::limits::client_of(peer, room));
  const auto work = [password = std::move(password)] { return gateway::basic::hash_password(password); };
  auto hash = co_await line_.run(std::move(network), work);
  if (!hash) co_return std::nullopt;
  co_return std::move(*hash);
}

Readings PasswordHashes::readings() const {
  return {counter("sluice_password_hashes_total", "Passwords of requests that were hashed.", line_.begun())};
}

std::shared_ptr<PasswordHashes> PasswordsComponent::make(const core::Here& here, const Parts& /*parts*/) const {
  return std::make_shared<PasswordHashes>(here);
}

}  // namespace sluice::app
