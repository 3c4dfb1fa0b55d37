#pragma once

namespace sluice::app {

// The exit codes of `sluice`.
enum ExitCode : int {
  exit_ok = 0,
  exit_failure = 1,  // it could not start or continue (an address is in use, a database unreachable), or a test failed
  exit_usage = 2,    // the command line is wrong
  exit_configuration = 3,  // the configuration is wrong
};

}  // namespace sluice::app
