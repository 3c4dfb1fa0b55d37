#pragma once

#include <climits>

#include "base/log.h"

namespace sluice::runtime {

// The limit on file descriptors for client connections.
struct Descriptors {
  int most = INT_MAX;             // a connection with this or a higher descriptor is closed
  TroubleLog* trouble = nullptr;  // logs that there are no more descriptors
};

}  // namespace sluice::runtime
