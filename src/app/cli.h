#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/explain_command.h"
#include "app/import/options.h"
#include "app/keys_command.h"
#include "app/proxy_command.h"
#include "app/suite/run.h"
#include "app/token_command.h"

namespace sluice::app {

// The exit codes of `sluice`.
enum ExitCode : int {
  exit_ok = 0,
  exit_failure = 1,  // it could not start or continue (an address is in use, a database unreachable), or a test failed
  exit_usage = 2,    // the command line is wrong
  exit_configuration = 3,  // the configuration is wrong
};

struct Command {
  enum class Action : std::uint8_t {
    serve,          // run the server that `file` describes
    check,          // only report the errors in `file`
    explain,        // print how `file` answers a request
    proxy,          // pass requests on to the servers in `proxy`
    test,           // run the test files in `suites`
    import_,        // import the file in `import_options`
    reload,         // make the server at `admin`, or of `file`, read its configuration again
    store_gc,       // remove unused files from the stores of `file`
    hash_password,  // print a hash of the password on standard input
    keys,           // make a key for tokens
    token,          // sign a token
    reference,      // print the reference of all keys
    print,          // print `text` and exit with exit_ok: --help, --version
    usage_error,    // print `text` to standard error and exit with exit_usage
  };

  Action action = Action::serve;
  std::string file = "sluice.toml";
  suite::RunOptions suites;
  ExplainCommand explain;
  import::Options import_options;
  ProxyCommand proxy;
  KeysCommand keys;
  TokenCommand token;
  bool dry_run = false;
  std::string url;                   // store_gc: the database's; empty: that of the configuration
  std::optional<std::string> admin;  // reload: the listener's URL; nullopt: that of `file`
  std::string text;
};

[[nodiscard]] Command parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
