#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace sluice::app::suite {

// `sluice test`.
struct RunOptions {
  std::vector<std::string> files;
  std::vector<std::string> databases;  // "sqlite" or "postgres://..."; each file runs on each. Empty: SQLite
  std::string filter;                  // report only steps whose name contains this text
  bool keep = false;                   // do not remove the databases
  bool verbose = false;                // print requests and answers as comments
};

// Runs the files' steps. Writes TAP to `out` and errors in the files to `errors`. Returns the exit code. After SIGINT
// or SIGTERM it removes what it has created and ends the program by that signal.
[[nodiscard]] int run_suites(const RunOptions& options, std::FILE* out, std::FILE* errors);

}  // namespace sluice::app::suite
