#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app::config {

// A configuration that can be served, as far as the file alone can tell: whether the addresses can be bound, the
// databases reached and the statements prepared is for the stages that do it. They name the place of what they find
// with `source.render()` and the Located values of the options.
struct Config {
  Source source;
  Options options;
};

// The process's environment variables.
[[nodiscard]] std::optional<std::string> process_environment(std::string_view name);

// The text of a file, of a configuration's size at most.
[[nodiscard]] std::expected<Source, Errors> read_source(const std::string& path);

// A file as far as it could be read, and what is wrong with it.
struct Examined {
  Config config;
  std::vector<Diagnostic> errors;
};

// Reads and checks a file. Relative paths in it are taken from its folder, and the folders that it serves must exist.
// `database_url`: what all of its databases have in place of their own; empty: theirs.
[[nodiscard]] Examined examine(const std::string& path, const Environment& environment,
                               std::string_view database_url = {});

// The configuration where nothing is wrong with it; else all errors, in the order of the file.
[[nodiscard]] std::expected<Config, Errors> outcome(Examined examined);

// Both.
[[nodiscard]] std::expected<Config, Errors> load(const std::string& path, const Environment& environment,
                                                 std::string_view database_url = {});

// The same without the file system.
[[nodiscard]] std::expected<Config, Errors> parse(Source source, const Environment& environment);

}  // namespace sluice::app::config
