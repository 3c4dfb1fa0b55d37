#pragma once

#include <span>
#include <string>

#include "user.h"

namespace case_study {

enum class Dialect { postgres, sqlite };

// A script that creates the table `users` and fills it; for SQLite also `user_roles`, an index of the users by role.
std::string users_as_sql(std::span<const User> users, Dialect dialect);

}  // namespace case_study
