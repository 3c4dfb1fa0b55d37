#pragma once

#include <string>

#include "user.h"

namespace case_study {

void append_json(std::string& out, const User& user);

}  // namespace case_study
