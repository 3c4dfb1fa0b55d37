#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/commands/exit_code.h"
#include "app/commands/health.h"
#include "app/commands/keys.h"
#include "app/commands/login.h"
#include "app/commands/proxy.h"
#include "app/commands/query.h"
#include "app/commands/start.h"
#include "app/commands/token.h"
#include "app/explain/command.h"
#include "app/import/options.h"
#include "app/suite/run.h"

namespace sluice::app {

struct Command {
  enum class Action : std::uint8_t {
    serve,          // run the server that `file` describes, or serve the database or folder `file`
    init,           // write a configuration for the database `file`
    check,          // only report the errors in `file`
    explain,        // print how `file` answers a request
    proxy,          // pass requests on to the servers in `proxy`
    test,           // run the test files in `suites`
    import_,        // import the file in `import_options`
    query,          // print the rows of a statement
    health,         // send a GET, and exit with exit_ok if the answer is 2xx
    reload,         // make the server at `admin`, or of `file`, read its configuration again
    store_gc,       // remove unused files from the stores of `file`
    login_sql,      // print or make the tables of [login]
    rooms_sql,      // print or make what [[room]] needs in its database
    user,           // add or change a user of [login.users]
    hash_password,  // print a hash of the password on standard input
    keys,           // make a key for tokens
    token,          // sign a token
    reference,      // print the reference of all keys
    print,          // print `text` and exit with exit_ok: --help, --version, completion, man
    usage_error,    // print `text` to standard error and exit with exit_usage
  };

  Action action = Action::serve;
  std::string file = "sluice.toml";
  suite::RunOptions suites;
  ExplainCommand explain;
  import::Options import_options;
  QueryCommand query;
  HealthCommand health;
  ProxyCommand proxy;
  StartCommand start;
  KeysCommand keys;
  TokenCommand token;
  bool development = false;  // serve: --dev
  bool dry_run = false;
  bool apply = false;  // login_sql, rooms_sql
  UserCommand user;
  std::string url;                   // store_gc: the database's; empty: that of the configuration
  std::optional<std::string> admin;  // reload: the listener's URL; nullopt: that of `file`
  std::string text;
};

[[nodiscard]] Command parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
