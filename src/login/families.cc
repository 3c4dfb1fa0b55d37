#include "login/families.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/base64url.h"
#include "gateway/digest.h"
#include "login/tables.h"

namespace sluice::login {
namespace {

using services::Value;
using Bytes = std::array<unsigned char, 32>;

constexpr std::size_t encoded_bytes = 43;  // of 32 in base64url without padding

std::string encoded(const Bytes& bytes) {
  return encode_base64url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string random_text() {
  Bytes bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) throw std::runtime_error("there is no randomness");
  return encoded(bytes);
}

std::string hash_of(std::string_view secret) {
  gateway::Sha256 sha256;
  return sha256.of(secret).hex();
}

// The secret after this one.
std::string successor(std::string_view pepper, std::string_view chain, std::string_view secret) {
  const std::string key = std::string(pepper) + std::string(chain);
  Bytes bytes;
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), bytes.data(), &size) == nullptr) {
    throw std::bad_alloc();
  }
  return encoded(bytes);
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::int64_t seconds_of(Duration time) { return std::chrono::duration_cast<std::chrono::seconds>(time).count(); }

bool is_encoded(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return text.size() == encoded_bytes && text.find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

std::string session_of(std::string_view family) {
  const gateway::Digest digest = gateway::Sha256().of(family);
  return encode_base64url({reinterpret_cast<const char*>(digest.bytes.data()), 18});
}

std::optional<RefreshToken> RefreshToken::parse(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view family = text.substr(0, dot);
  const std::string_view secret = text.substr(dot + 1);
  if (!is_encoded(family) || !is_encoded(secret)) return std::nullopt;
  return RefreshToken{.family = std::string(family), .secret = std::string(secret)};
}

Families::Families(services::Database& database, const Options& options)
    : database_(database),
      lifetime_s_(seconds_of(options.lifetime)),
      grace_s_(seconds_of(options.grace)),
      pepper_(options.pepper),
      insert_("INSERT INTO " + options.table +
              " (session, subject, parameters, credential, current_hash, chain, rotated_at, expires_at) "
              "VALUES (:session, :subject, :parameters, :credential, :hash, :chain, 0, :expires)"),
      find_("SELECT subject, parameters, credential, current_hash, previous_hash, chain, rotated_at, expires_at FROM " +
            options.table + " WHERE session = :session AND ended_at IS NULL"),
      rotate_("UPDATE " + options.table +
              " SET previous_hash = current_hash, current_hash = :next, rotated_at = :now "
              "WHERE session = :session AND current_hash = :hash AND ended_at IS NULL"),
      end_("UPDATE " + options.table + " SET ended_at = :now WHERE session = :session AND ended_at IS NULL"),
      end_all_("UPDATE " + options.table +
               " SET ended_at = :now WHERE subject = :subject AND ended_at IS NULL RETURNING session"),
      ended_("SELECT session, ended_at FROM " + options.table + " WHERE ended_at >= :since"),
      prune_("DELETE FROM " + options.table + " WHERE expires_at <= :now OR ended_at <= :before") {}

core::Task<std::expected<RefreshToken, sql::Error>> Families::begin(User user, std::int64_t now_s) {
  RefreshToken token{.family = random_text(), .secret = random_text()};
  const auto written = co_await database_.write(
      insert_, Value("session", session_of(token.family)), Value("subject", user.subject),
      Value("parameters", user.parameters), Value("credential", user.credential), Value("hash", hash_of(token.secret)),
      Value("chain", random_text()), Value("expires", now_s + lifetime_s_));
  if (!written) co_return std::unexpected(written.error());
  co_return token;
}

core::Task<Families::Finding> Families::find(RefreshToken token, std::int64_t now_s) {
  using Outcome = std::expected<Found, Refusal>;
  const auto rows = co_await database_.read(find_, Value("session", session_of(token.family)));
  if (!rows) co_return std::unexpected(rows.error());
  if (rows->empty()) co_return Outcome(std::unexpect, Refusal::unknown);
  Found found{.user = {.subject = std::string(*rows->at(0, "subject")),
                       .parameters = std::string(*rows->at(0, "parameters")),
                       .credential = std::string(*rows->at(0, "credential"))},
              .next = {.family = token.family, .secret = successor(pepper_, *rows->at(0, "chain"), token.secret)},
              .expires_s = number_of(rows->at(0, "expires_at")),
              .hash = hash_of(token.secret)};
  if (found.expires_s <= now_s) co_return Outcome(std::unexpect, Refusal::expired);
  // A clock that has been set back does not prolong the grace.
  const bool is_fresh = std::abs(now_s - number_of(rows->at(0, "rotated_at"))) <= grace_s_;
  const std::string_view current = *rows->at(0, "current_hash");
  if (same(found.hash, current)) {
    // A token changes at most once within the grace, so that no client that is slow has an older one than the one
    // before.
    found.is_rotated = is_fresh;
    if (is_fresh) found.next.secret = token.secret;
    co_return found;
  }
  found.is_rotated = is_fresh && same(found.hash, rows->at(0, "previous_hash").value_or(""));
  if (found.is_rotated) {
    if (same(hash_of(found.next.secret), current)) co_return found;
    co_return Outcome(std::unexpect, Refusal::unknown);  // the pepper has changed meanwhile
  }
  const auto ended = co_await end_session(session_of(token.family), now_s);
  if (!ended) co_return std::unexpected(ended.error());
  co_return Outcome(std::unexpect, Refusal::reused);
}

core::Task<std::expected<bool, sql::Error>> Families::rotate(const Found& found, std::int64_t now_s) {
  if (found.is_rotated) co_return true;
  const auto written =
      co_await database_.write(rotate_, Value("next", hash_of(found.next.secret)), Value("now", now_s),
                               Value("session", session_of(found.next.family)), Value("hash", found.hash));
  if (!written) co_return std::unexpected(written.error());
  co_return written->changes() != 0;
}

core::Task<std::expected<std::optional<std::string>, sql::Error>> Families::end(RefreshToken token,
                                                                                std::int64_t now_s) {
  const auto found = co_await database_.read(find_, Value("session", session_of(token.family)));
  if (!found) co_return std::unexpected(found.error());
  if (found->empty()) co_return std::nullopt;
  const std::string hash = hash_of(token.secret);
  if (!same(hash, *found->at(0, "current_hash")) && !same(hash, found->at(0, "previous_hash").value_or(""))) {
    co_return std::nullopt;
  }
  const auto ended = co_await end_session(session_of(token.family), now_s);
  if (!ended) co_return std::unexpected(ended.error());
  co_return std::optional<std::string>(*found->at(0, "subject"));
}

core::Task<std::expected<void, sql::Error>> Families::end_session(std::string session, std::int64_t now_s) {
  const auto ended = co_await database_.write(end_, Value("session", session), Value("now", now_s));
  if (!ended) co_return std::unexpected(ended.error());
  co_return std::expected<void, sql::Error>{};
}

core::Task<std::expected<std::vector<std::string>, sql::Error>> Families::end_all(std::string subject,
                                                                                  std::int64_t now_s) {
  const auto ended = co_await database_.write(end_all_, Value("subject", subject), Value("now", now_s));
  if (!ended) co_return std::unexpected(ended.error());
  std::vector<std::string> sessions;
  for (std::size_t i = 0; i < ended->size(); ++i) sessions.emplace_back(*ended->at(i, "session"));
  co_return sessions;
}

core::Task<std::expected<std::vector<Families::Ended>, sql::Error>> Families::ended_since(std::int64_t since_s) {
  const auto found = co_await database_.read(ended_, Value("since", since_s));
  if (!found) co_return std::unexpected(found.error());
  std::vector<Ended> all;
  for (std::size_t i = 0; i < found->size(); ++i) {
    all.push_back({.session = std::string(*found->at(i, "session")), .at_s = number_of(found->at(i, "ended_at"))});
  }
  co_return all;
}

core::Task<std::expected<std::uint64_t, sql::Error>> Families::prune(std::int64_t now_s) {
  const auto pruned = co_await database_.write(prune_, Value("now", now_s), Value("before", now_s - 24 * 3600));
  if (!pruned) co_return std::unexpected(pruned.error());
  co_return pruned->changes();
}

}  // namespace sluice::login
