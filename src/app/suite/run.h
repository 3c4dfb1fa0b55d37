#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace sluice::app::suite {

// `sluice test`.
struct RunOptions {
  std::vector<std::string> files;
  std::vector<std::string> databases;  // "sqlite", "postgres://..."; each file runs on each. Empty: SQLite
  std::string filter;                  // report only steps whose name holds this text
  bool keep = false;                   // leave the databases
  bool verbose = false;                // requests and answers as comments
};

// Runs the files' steps and writes TAP to `out`, what is wrong with the files to `errors`. Gives the exit code; after
// SIGINT or SIGTERM it removes what it has created and ends the program by that signal.
[[nodiscard]] int run_suites(const RunOptions& options, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app::suite
