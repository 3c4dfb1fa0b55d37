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

// A configuration that has passed all checks that need only the file. Later stages check whether addresses can be
// bound, databases reached and statements prepared. They report errors with `source.render()` at the positions of the
// options' Located values.
struct Config {
  Source source;
  Options options;
  std::vector<std::string> warnings = {};  // problems that do not prevent serving
};

// The process's environment variables.
[[nodiscard]] std::optional<std::string> process_environment(std::string_view name);

// Refuses to read the files of secrets.
[[nodiscard]] std::expected<std::string, std::string> no_secrets(std::string_view path, Position position);

// Reads the text of a file, which must not be larger than a configuration may be.
[[nodiscard]] std::expected<Source, Errors> read_source(const std::string& path);

// The part of a file that could be read, and its errors.
struct Examined {
  Config config;
  std::vector<Diagnostic> errors;
};

// Reads and checks a file and those that it includes. Relative paths start at the folder of the file in which they
// stand. The folders that it serves must exist. `database_url` replaces the URL of every database; empty: each keeps
// its own.
[[nodiscard]] Examined examine(const std::string& path, const Environment& environment,
                               std::string_view database_url = {});

// Returns the configuration if it has no errors; otherwise all errors, in the order of the file.
[[nodiscard]] std::expected<Config, Errors> outcome(Examined examined);

// examine() and outcome() together.
[[nodiscard]] std::expected<Config, Errors> load(const std::string& path, const Environment& environment,
                                                 std::string_view database_url = {});

// Like load(), but from text and without access to the file system. The source has the included files.
[[nodiscard]] std::expected<Config, Errors> parse(Source source, const Environment& environment,
                                                  const ReadSecret& read_secret = no_secrets);

}  // namespace sluice::app::config
