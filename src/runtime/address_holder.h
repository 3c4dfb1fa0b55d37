#pragma once

#include <string>

#include "core/address.h"

namespace sluice::runtime {

// Finds the process that listens on a TCP address, for a message: " (by nginx, process 1234)". Empty if it cannot be
// seen, as that of another user.
[[nodiscard]] std::string holder_of(const core::Address& address);

}  // namespace sluice::runtime
