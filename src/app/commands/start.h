#pragma once

#include <cstdio>
#include <expected>
#include <string>
#include <vector>

#include "app/init/configuration.h"

// `sluice serve` of a database or a folder, without a configuration file, and `sluice init`.
namespace sluice::app {

struct StartCommand {
  std::string listen = "127.0.0.1:8080";
  bool writes = false;   // clients may change rows
  bool stays = false;    // open no browser
  std::string database;  // init: a URL or a file; empty: DATABASE_URL, or the only SQLite file of the working directory
  std::string output = "sluice.toml";  // init: the file that is written
  std::vector<std::string> tables;     // init: only these; empty: all
};

enum class Served { configuration, database, folder };

// Tells a database (a URL, a SQLite file) and a folder from the file of a configuration.
[[nodiscard]] Served kind_of(const std::string& argument);

// The URL of a database that is given as a URL or as a SQLite file, with a path from the root. An error is a message.
[[nodiscard]] std::expected<std::string, std::string> database_url(const std::string& argument);

// The configuration that serves all tables of a database, on the loopback. An error is a message.
[[nodiscard]] std::expected<init::Configuration, std::string> serve_database(const std::string& argument,
                                                                             const StartCommand& command);
// The configuration that serves the files of a folder, on the loopback.
[[nodiscard]] std::expected<std::string, std::string> serve_folder(const std::string& folder,
                                                                   const StartCommand& command);

// The message for a `sluice serve` that names nothing where there is no sluice.toml.
[[nodiscard]] std::string nothing_to_serve();

// Writes the configuration. Returns the exit code.
[[nodiscard]] int write_configuration(const StartCommand& command, std::FILE* out, std::FILE* errors);

// Opens the URL in the user's browser, if there is a desktop.
void open_browser(const std::string& url);

}  // namespace sluice::app
