#pragma once

#include <string>

namespace sluice::app::config {

// docs/guide/configuration.md: every key with its type, default and meaning, generated from the declarations.
[[nodiscard]] std::string reference();

// The example at the beginning of the page: a complete configuration file.
[[nodiscard]] std::string reference_example();

}  // namespace sluice::app::config
