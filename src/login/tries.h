#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/task.h"
#include "services/databases.h"

namespace sluice::login {

// Counts tries to log in, in a table of the database, so that all nodes count together. After some tries that have
// failed, the next one must wait, and the delay doubles with each.
//
// A try is counted before its password is verified. So tries at the same time do not pass together: each of them
// needs a row that was free.
class Tries {
 public:
  struct Rule {
    std::uint32_t free = 0;  // tries without a delay
    Duration most{};         // the longest delay
  };
  struct Options {
    std::string table = "login_tries";
    // The same account from the same network, the same network with any account, and the same account from everywhere,
    // but for networks from which somebody has logged in to it: guessers elsewhere do not keep its owner out.
    Rule pair = {.free = 3, .most = 15min};
    Rule network = {.free = 50, .most = 1min};
    Rule account = {.free = 20, .most = 30s};
  };
  // `database` outlives the object.
  Tries(services::Database& database, const Options& options);

  // `account`: as it was given, whether it exists or not. `network`: of the client. Times are in milliseconds of the
  // Unix epoch.
  struct Try {
    std::string account;
    std::string network;
    std::int64_t now_ms = 0;
  };
  // Counts the try. Returns zero if the password may be verified, or else how long the client has to wait.
  [[nodiscard]] core::Task<std::expected<Duration, sql::Error>> begin(Try one);
  // The password was right.
  [[nodiscard]] core::Task<std::expected<void, sql::Error>> succeeded(Try one);
  // Removes what has not been used for a day.
  [[nodiscard]] core::Task<std::expected<std::uint64_t, sql::Error>> prune(std::int64_t now_ms);
  // All statements, for `sluice check`.
  [[nodiscard]] std::vector<std::string_view> reading() const { return {wait_}; }
  [[nodiscard]] std::vector<std::string_view> writing() const { return {count_, forget_, halve_, remember_, prune_}; }

 private:
  // Hashes: names of accounts are personal data, and may be passwords that were typed into the wrong field.
  struct Keys {
    explicit Keys(const Try& one);
    const std::string pair;
    const std::string network;
    const std::string account;
    const std::string home;
  };
  struct State {
    Duration wait{};       // zero: none of the keys has to wait
    bool is_home = false;  // somebody has logged in to the account from the network within 30 days
  };
  core::Task<std::expected<State, sql::Error>> look(const Keys& keys, std::int64_t now_ms);

  services::Database& database_;
  const Options options_;
  // Statements.
  const std::string count_;
  const std::string wait_;
  const std::string forget_;
  const std::string halve_;
  const std::string remember_;
  const std::string prune_;
};

}  // namespace sluice::login
