#pragma once

#include <nlohmann/json.hpp>

#include "user.h"

// Conversions between users and nlohmann::json values, by the library's macros.
namespace case_study {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, street, city, postcode, country)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(User, id, name, email, title, department, roles, active, created_at, updated_at,
                                   address, settings, about)

}  // namespace case_study
