#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

// Texts that are made from the declaration of the command line.
namespace sluice::app {

// A script that completes commands, options and files in this shell: "bash", "zsh" or "fish".
[[nodiscard]] std::string completion(const CLI::App& app, std::string_view shell);

// The manual page, sluice(1), in man's macros.
[[nodiscard]] std::string manual(const CLI::App& app);

}  // namespace sluice::app
