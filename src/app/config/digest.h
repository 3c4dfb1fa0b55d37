#pragma once

#include <string>

#include "app/config/source.h"

namespace sluice::app::config {

// SHA-256 of a configuration, as hexadecimal digits: of its files one after the other, and of its secrets. Secrets are
// stretched first, so that a reader of the digest cannot try passwords quickly.
[[nodiscard]] std::string digest_of(const Source& source);

}  // namespace sluice::app::config
