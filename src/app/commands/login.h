#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "app/config/load.h"

namespace sluice::app {

// `sluice login sql`: prints the statements of the tables of [login]. `apply`: executes them instead.
[[nodiscard]] int login_tables(const config::Config& config, bool apply, std::FILE* out, std::FILE* errors);

// `sluice user`: the table of [login.users].
struct UserCommand {
  enum class Does : std::uint8_t { add, password, disable };
  Does does{};
  std::string name;
  std::vector<std::string> columns;  // of a new user: COLUMN=VALUE
};
// Reads the password from standard input.
[[nodiscard]] int change_user(const config::Config& config, const UserCommand& command, std::FILE* out,
                              std::FILE* errors);

}  // namespace sluice::app
