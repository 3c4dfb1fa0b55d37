#pragma once

#include <cstddef>
#include <string>

#include "user.h"

namespace case_study {

// More bytes than most users need; a string that needs more grows.
constexpr std::size_t bytes_of_a_user = 640;

void append_json(std::string& out, const User& user);

}  // namespace case_study
