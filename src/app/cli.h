#pragma once

#include <cstdint>
#include <string>

#include "app/import/options.h"
#include "app/suite/run.h"

namespace sluice::app {

// What `sluice` exits with.
enum ExitCode : int {
  exit_ok = 0,
  exit_failure = 1,        // it could not start or go on: an address is taken, a database is gone; or a test has failed
  exit_usage = 2,          // the command line is wrong
  exit_configuration = 3,  // the configuration is wrong
};

struct Command {
  enum class Action : std::uint8_t {
    serve,        // run what `file` says
    check,        // only say what is wrong with `file`
    test,         // run what `suites` says
    import_,      // what `import_options` says
    reload,       // have the server at `admin` read its configuration again
    store_gc,     // remove the files that nothing uses from the stores of `file`
    reference,    // print the reference of all keys
    print,        // print `text` and exit with exit_ok: --help, --version
    usage_error,  // print `text` to standard error and exit with exit_usage
  };

  Action action = Action::serve;
  std::string file = "sluice.toml";
  suite::RunOptions suites;
  import::Options import_options;
  bool dry_run = false;
  std::string admin = "http://127.0.0.1:8081";
  std::string text;
};

[[nodiscard]] Command parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
