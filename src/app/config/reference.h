#pragma once

#include <string>

namespace sluice::app::config {

// docs/guide/configuration.md: every key with its type, default and meaning, from the declarations.
[[nodiscard]] std::string reference();

// The example at its beginning: a whole file.
[[nodiscard]] std::string reference_example();

}  // namespace sluice::app::config
