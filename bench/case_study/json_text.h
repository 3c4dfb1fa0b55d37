#pragma once

#include <string>

#include "user.h"

namespace case_study {

// Appends the user's JSON object.
void append_json(std::string& out, const User& user);

}  // namespace case_study
