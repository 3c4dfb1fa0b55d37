#include "login/families.h"

#include <array>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/base64url.h"
#include "gateway/digest.h"

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
std::string successor(std::string_view chain, std::string_view secret) {
  Bytes bytes;
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), chain.data(), static_cast<int>(chain.size()),
           reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), bytes.data(), &size) == nullptr) {
    throw std::bad_alloc();
  }
  return encoded(bytes);
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::int64_t number(std::optional<std::string_view> text) {
  std::int64_t value = 0;
  if (text) (void)std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

std::int64_t seconds_of(Duration time) { return std::chrono::duration_cast<std::chrono::seconds>(time).count(); }

bool is_encoded(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return text.size() == encoded_bytes && text.find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

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
      insert_("INSERT INTO " + options.table +
              " (family, subject, parameters, current_hash, chain, rotated_at, expires_at) "
              "VALUES (:family, :subject, :parameters, :hash, :chain, :now, :expires)"),
      find_("SELECT subject, parameters, current_hash, previous_hash, chain, rotated_at, expires_at FROM " +
            options.table + " WHERE family = :family"),
      rotate_("UPDATE " + options.table +
              " SET previous_hash = current_hash, current_hash = :next, rotated_at = :now "
              "WHERE family = :family AND current_hash = :hash"),
      end_("DELETE FROM " + options.table + " WHERE family = :family"),
      end_all_("DELETE FROM " + options.table + " WHERE subject = :subject"),
      prune_("DELETE FROM " + options.table + " WHERE expires_at <= :now") {}

core::Task<std::expected<RefreshToken, sql::Error>> Families::begin(User user, std::int64_t now_s) {
  RefreshToken token{.family = random_text(), .secret = random_text()};
  const auto written = co_await database_.write(insert_, Value("family", token.family), Value("subject", user.subject),
                                                Value("parameters", user.parameters),
                                                Value("hash", hash_of(token.secret)), Value("chain", random_text()),
                                                Value("now", now_s), Value("expires", now_s + lifetime_s_));
  if (!written) co_return std::unexpected(written.error());
  co_return token;
}

core::Task<Families::Rotation> Families::rotate(RefreshToken token, std::int64_t now_s) {
  using Outcome = std::expected<Rotated, Refusal>;
  const std::string hash = hash_of(token.secret);
  for (;;) {
    const auto found = co_await database_.read(find_, Value("family", token.family));
    if (!found) co_return std::unexpected(found.error());
    if (found->empty()) co_return Outcome(std::unexpect, Refusal::unknown);
    const std::int64_t expires_s = number(found->at(0, "expires_at"));
    if (expires_s <= now_s) co_return Outcome(std::unexpect, Refusal::expired);
    Rotated rotated{.next = {.family = token.family, .secret = successor(*found->at(0, "chain"), token.secret)},
                    .user = {.subject = std::string(*found->at(0, "subject")),
                             .parameters = std::string(*found->at(0, "parameters"))},
                    .expires_s = expires_s};
    if (same(hash, *found->at(0, "current_hash"))) {
      const auto written =
          co_await database_.write(rotate_, Value("next", hash_of(rotated.next.secret)), Value("now", now_s),
                                   Value("family", token.family), Value("hash", hash));
      if (!written) co_return std::unexpected(written.error());
      if (written->changes() != 0) co_return rotated;
      continue;  // another request has rotated or ended the family meanwhile
    }
    const bool is_previous = same(hash, found->at(0, "previous_hash").value_or(""));
    if (is_previous && now_s - number(found->at(0, "rotated_at")) <= grace_s_) co_return rotated;
    const auto ended = co_await database_.write(end_, Value("family", token.family));
    if (!ended) co_return std::unexpected(ended.error());
    co_return Outcome(std::unexpect, Refusal::reused);
  }
}

core::Task<std::expected<std::optional<std::string>, sql::Error>> Families::end(RefreshToken token) {
  const auto found = co_await database_.read(find_, Value("family", token.family));
  if (!found) co_return std::unexpected(found.error());
  if (found->empty()) co_return std::nullopt;
  const std::string hash = hash_of(token.secret);
  if (!same(hash, *found->at(0, "current_hash")) && !same(hash, found->at(0, "previous_hash").value_or(""))) {
    co_return std::nullopt;
  }
  const auto ended = co_await database_.write(end_, Value("family", token.family));
  if (!ended) co_return std::unexpected(ended.error());
  co_return std::optional<std::string>(*found->at(0, "subject"));
}

core::Task<std::expected<std::uint64_t, sql::Error>> Families::end_all(std::string subject) {
  const auto ended = co_await database_.write(end_all_, Value("subject", subject));
  if (!ended) co_return std::unexpected(ended.error());
  co_return ended->changes();
}

core::Task<std::expected<std::uint64_t, sql::Error>> Families::prune(std::int64_t now_s) {
  const auto pruned = co_await database_.write(prune_, Value("now", now_s));
  if (!pruned) co_return std::unexpected(pruned.error());
  co_return pruned->changes();
}

}  // namespace sluice::login
