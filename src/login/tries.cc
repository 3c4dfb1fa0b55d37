#include "login/tries.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "gateway/digest.h"
#include "login/tables.h"

namespace sluice::login {
namespace {

using services::Value;

constexpr std::int64_t kept_ms = 24 * 3600 * 1000;
constexpr std::int64_t home_ms = 30 * kept_ms;
constexpr std::int64_t skew_ms = 60 * 1000;  // between nodes; a later try is from before a clock was set back

std::string key_of(std::string_view kind, std::string_view text) {
  gateway::Sha256 sha256;
  return sha256.of(kind, text).hex();
}

std::int64_t milliseconds_of(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

Tries::Keys::Keys(const Try& one)
    : pair(key_of("pair:", one.account + '\0' + one.network)),
      network(key_of("network:", one.network)),
      account(key_of("account:", one.account)),
      home(key_of("home:", one.account + '\0' + one.network)) {}

// The delay after a try is 1 s, 2 s, 4 s and so on, up to the most. `<<` and CASE mean the same in both databases.
Tries::Tries(services::Database& database, const Options& options)
    : database_(database),
      options_(options),
      count_("INSERT INTO " + options.table +
             " AS tries (key, failures, next_at, tried_at) VALUES (:key, 1, :now, :now) "
             "ON CONFLICT (key) DO UPDATE SET failures = tries.failures + 1, tried_at = excluded.tried_at, "
             "next_at = excluded.tried_at + CASE WHEN tries.failures < :free THEN 0 "
             "WHEN tries.failures - :free > 20 THEN :most "
             "WHEN 1000 * (1 << (tries.failures - :free)) > :most THEN :most "
             "ELSE 1000 * (1 << (tries.failures - :free)) END "
             "WHERE tries.next_at <= excluded.tried_at OR tries.tried_at > :late"),
      wait_("SELECT key, next_at, tried_at FROM " + options.table + " WHERE key IN (:pair, :network, :account, :home)"),
      forget_("DELETE FROM " + options.table + " WHERE key = :key"),
      halve_("UPDATE " + options.table + " SET failures = failures / 2, next_at = :now WHERE key = :key"),
      remember_("INSERT INTO " + options.table +
                " (key, failures, next_at, tried_at) VALUES (:key, 0, 0, :until) "
                "ON CONFLICT (key) DO UPDATE SET tried_at = excluded.tried_at"),
      prune_("DELETE FROM " + options.table + " WHERE tried_at <= :before") {}

core::Task<std::expected<Duration, sql::Error>> Tries::begin(Try one) {
  const Keys keys(one);
  // A flood of tries that must wait writes nothing.
  const auto before = co_await look(keys, one.now_ms);
  if (!before) co_return std::unexpected(before.error());
  if (before->wait > Duration{}) co_return before->wait;
  const std::pair<std::string, Rule> accounts[] = {
      {keys.pair, options_.pair}, {keys.network, options_.network}, {keys.account, options_.account}};
  for (const auto& [key, rule] : accounts) {
    if (before->is_home && key == keys.account) continue;
    const auto counted = co_await database_.write(
        count_, Value("key", key), Value("now", one.now_ms), Value("free", static_cast<std::int64_t>(rule.free)),
        Value("most", milliseconds_of(rule.most)), Value("late", one.now_ms + skew_ms));
    if (!counted) co_return std::unexpected(counted.error());
    if (counted->changes() != 0) continue;
    // Another try has come between.
    const auto now = co_await look(keys, one.now_ms);
    if (!now) co_return std::unexpected(now.error());
    co_return std::max<Duration>(now->wait, 1ms);
  }
  co_return Duration{};
}

core::Task<std::expected<Tries::State, sql::Error>> Tries::look(const Keys& keys, std::int64_t now_ms) {
  const auto found = co_await database_.read(wait_, Value("pair", keys.pair), Value("network", keys.network),
                                             Value("account", keys.account), Value("home", keys.home));
  if (!found) co_return std::unexpected(found.error());
  State state;
  std::int64_t account_ms = 0;
  std::int64_t next_ms = 0;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const std::string_view key = *found->at(i, "key");
    if (key == keys.home) {
      state.is_home = true;
      continue;
    }
    if (number_of(found->at(i, "tried_at")) > now_ms + skew_ms) continue;
    std::int64_t& latest = key == keys.account ? account_ms : next_ms;
    latest = std::max(latest, number_of(found->at(i, "next_at")));
  }
  if (!state.is_home) next_ms = std::max(next_ms, account_ms);
  state.wait = std::chrono::milliseconds(std::max<std::int64_t>(next_ms - now_ms, 0));
  co_return state;
}

core::Task<std::expected<void, sql::Error>> Tries::succeeded(Try one) {
  using Step = services::Database::Step;
  const Keys keys(one);
  std::vector<Step> steps;
  steps.push_back({.statement = forget_, .values = {Value("key", keys.pair)}});
  for (const std::string& key : {keys.network, keys.account}) {
    steps.push_back({.statement = halve_, .values = {Value("now", one.now_ms), Value("key", key)}});
  }
  steps.push_back({.statement = remember_, .values = {Value("key", keys.home), Value("until", one.now_ms + home_ms)}});
  const auto written = co_await database_.write_all(std::move(steps));
  if (!written) co_return std::unexpected(written.error());
  co_return std::expected<void, sql::Error>{};
}

core::Task<std::expected<std::uint64_t, sql::Error>> Tries::prune(std::int64_t now_ms) {
  const auto pruned = co_await database_.write(prune_, Value("before", now_ms - kept_ms));
  if (!pruned) co_return std::unexpected(pruned.error());
  co_return pruned->changes();
}

}  // namespace sluice::login
