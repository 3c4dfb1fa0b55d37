#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "sql/encode/format.h"

// `sluice query`: the rows of one statement on standard output, or in a file.
namespace sluice::app {

struct QueryCommand {
  std::string database;  // a URL, or a SQLite file
  std::string statement;
  sql::Format format = sql::Format::csv;
  std::vector<std::string> parameters;  // NAME=VALUE
  std::string output;                   // empty: standard output
  bool writes = false;                  // the statement may write
};

// Checks the URL; a message, or nothing. The message does not repeat the URL, which may hold a password.
[[nodiscard]] std::string check_query_database(const std::string& database);

// Returns the exit code: also 128 + SIGPIPE if the reader of standard output has gone, and 128 + the signal that has
// ended the command.
[[nodiscard]] int run_query(const QueryCommand& command, std::FILE* errors);

}  // namespace sluice::app
