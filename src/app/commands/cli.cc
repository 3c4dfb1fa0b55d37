#include "app/commands/cli.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "app/commands/describe.h"
#include "app/commands/version.h"
#include "app/config/text.h"
#include "app/log/redaction.h"
#include "base/time.h"
#include "gateway/jwt/token.h"
#include "sql/options.h"

namespace sluice::app {
namespace {

constexpr std::array<std::string_view, 20> commands = {
    "serve", "init", "check", "explain",       "reload", "health", "proxy", "test",       "import", "query",
    "store", "keys", "token", "hash-password", "login",  "rooms",  "user",  "completion", "man",    "reference"};

// The message for a first argument that is not a command. CLI11 itself would only say that a command is missing.
std::string unknown_command(std::string_view word) {
  std::string text = "sluice: there is no command \"" + std::string(word) + "\"";
  std::string_view meant = config::nearest(word, commands);
  if (word.ends_with(".toml") || kind_of(std::string(word)) != Served::configuration) {
    text += "; did you mean \"sluice serve " + std::string(word) + "\"?";
  } else if (word.ends_with(".sluicetest")) {
    text += "; did you mean \"sluice test " + std::string(word) + "\"?";
  } else if (!meant.empty()) {
    text += "; did you mean \"" + std::string(meant) + "\"?";
  }
  return text + "\nRun with --help for more information.\n";
}

std::string check_algorithm(const std::string& text) {
  if (gateway::jwt::parse_algorithm(text)) return {};
  std::string names;
  for (const auto& [name, algorithm] : gateway::jwt::algorithms) names.append(names.empty() ? "" : ", ").append(name);
  return "\"" + text + "\" must be one of " + names;
}

std::string check_expires(const std::string& text) {
  const auto duration = config::parse_duration(text);
  return duration && *duration >= 1s ? "" : "\"" + text + "\" must be a duration of at least 1s: 90s, 15m, 24h";
}

std::string check_claim(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals != 0 && equals != text.npos ? "" : "\"" + text + "\" must be NAME=VALUE: role=admin, level=3";
}

void add_file(CLI::App& app, Command& command) {
  app.add_option("FILE", command.file, "The configuration file")
      ->capture_default_str()
      ->option_text("[FILE]  (default: sluice.toml)");
}

void add_serve(CLI::App& app, Command& command) {
  CLI::App* serve = app.add_subcommand(
      "serve", "Run the server that the configuration describes, or serve a database or a folder, until SIGTERM");
  serve
      ->add_option(
          "WHAT", command.file,
          "The configuration file; or a SQLite file, a URL of PostgreSQL or a folder, which is served without one")
      ->option_text("[FILE | URL | FOLDER]  (default: sluice.toml)");
  CLI::Option* listen =
      serve->add_option("--listen", command.start.listen, "For a database or a folder: an address of the loopback")
          ->option_text("ADDRESS  (default: 127.0.0.1:8080)");
  CLI::Option* write =
      serve->add_flag("--write", command.start.writes, "For a database: clients may add, change and delete rows");
  CLI::Option* stay =
      serve->add_flag("--no-open", command.start.stays, "For a database or a folder: do not open a browser");
  serve->add_flag("--dev", command.development,
                  "Read the configuration again when it changes, and show the database's messages in answers");
  serve->callback([&command, listen, write, stay] {
    command.action = Command::Action::serve;
    if (kind_of(command.file) != Served::configuration) return;
    for (const CLI::Option* const option : {listen, write, stay}) {
      if (option->count() == 0) continue;
      throw CLI::ValidationError(option->get_name() + " is for a database or a folder; " + command.file +
                                 " is a configuration, which says this itself");
    }
  });
}

void add_init(CLI::App& app, Command& command) {
  CLI::App* init = app.add_subcommand("init", "Write a configuration that serves the tables of a database");
  init->add_option("DATABASE", command.start.database,
                   "A SQLite file, or a URL of PostgreSQL; default: $DATABASE_URL, or the only SQLite file here")
      ->option_text("[FILE | URL]");
  init->add_option("--output", command.start.output, "The file to write, which must not be there yet")
      ->option_text("FILE  (default: sluice.toml)");
  init->add_option("--tables", command.start.tables, "Only these tables and views: films,tags")
      ->option_text("NAMES")
      ->delimiter(',');
  init->add_flag("--write", command.start.writes, "Also the methods that add, change and delete rows");
  init->callback([&] { command.action = Command::Action::init; });
}

void add_explain(CLI::App& app, Command& command) {
  CLI::App* explain =
      app.add_subcommand("explain", "Print how the configuration answers a request, without sending it");
  explain->add_option("METHOD", command.explain.method, "The method, such as GET")->required()->check(check_method);
  explain->add_option("URL", command.explain.url, "/path?query, or http://HOST/path?query")
      ->required()
      ->check(check_url);
  explain->add_option("--config", command.file, "The configuration file")->option_text("FILE  (default: sluice.toml)");
  explain
      ->add_option("-H,--header", command.explain.headers,
                   "A header field of the request; repeat the option for more fields")
      ->option_text("'NAME: VALUE'")
      ->check(check_header)
      ->allow_extra_args(false);
  explain->add_option("--client", command.explain.client, "The client's address, for policies of type \"ip\"")
      ->option_text("ADDRESS")
      ->check(check_client);
  explain
      ->add_option("--jwks", command.explain.jwks,
                   "A JWK set for policies with `jwks_url`, as the issuer publishes it: the keys are not fetched")
      ->option_text("FILE");
  explain->add_flag("--json", command.explain.json, "Print JSON");
  explain->footer(
      "Exit codes: 0 a route answers the request; 1 it would be refused, or no route matches it; 2 the command line is "
      "wrong; 3 the configuration is wrong.");
  explain->callback([&] { command.action = Command::Action::explain; });
}

void add_reload(CLI::App& app, Command& command) {
  CLI::App* reload = app.add_subcommand("reload", "Make a running server read its configuration again");
  reload
      ->add_option(
          "--admin", command.admin,
          "The address of the server's admin listener: http://ADDRESS:PORT, or unix:PATH; default: that of FILE")
      ->option_text("URL");
  reload->footer(
      "Exit codes: 0 the server uses the new configuration; 1 the server cannot be reached, or refuses; 2 the "
      "command line is wrong; 3 the configuration is wrong, and nothing has changed.");
  reload->callback([&] { command.action = Command::Action::reload; });
  add_file(*reload, command);
}

void add_health(CLI::App& app, Command& command) {
  CLI::App* health = app.add_subcommand("health", "Send a GET, for health checks: exit with 0 if the answer is 2xx");
  health->add_option("URL", command.health.url, "http://ADDRESS:PORT/PATH, or unix:PATH for /readyz on a socket")
      ->option_text("[URL]  (default: http://127.0.0.1:8081/readyz)");
  health
      ->add_option_function<std::string>(
          "--timeout", [&](const std::string& text) { command.health.timeout = *config::parse_duration(text); },
          "How long the whole answer may take; default: 5s")
      ->option_text("DURATION")
      ->check([](const std::string& text) {
        return config::parse_duration(text) ? "" : "\"" + text + "\" must be a duration: 500ms, 5s";
      });
  health->callback([&] { command.action = Command::Action::health; });
}

// The commands that print a text about the command line itself.
void add_texts(CLI::App& app, Command& command, std::string& shell) {
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes commands and options");
  completion->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&] {
    command.action = Command::Action::print;
    command.text = sluice::app::completion(app, shell);
  });
  CLI::App* man = app.add_subcommand("man", "Print the manual page: sluice man | man -l -");
  man->callback([&] {
    command.action = Command::Action::print;
    command.text = manual(app);
  });
}

void add_proxy(CLI::App& app, Command& command) {
  CLI::App* proxy = app.add_subcommand("proxy", "Pass all requests on to servers, without a configuration file");
  proxy->add_option("SERVER", command.proxy.servers, "Servers: localhost:3000, https://HOST, unix:PATH")->required();
  proxy->add_option("--listen", command.proxy.listen, "Where clients connect")
      ->capture_default_str()
      ->option_text("ADDRESS  (default: 127.0.0.1:8080)");
  proxy->add_flag("--print", command.proxy.print, "Print an equivalent configuration file, and exit");
  proxy->callback([&] { command.action = Command::Action::proxy; });
}

void add_hash_password(CLI::App& app, Command& command) {
  CLI::App* hash_password =
      app.add_subcommand("hash-password", "Print the hash of a password, for the users of a policy of type \"basic\"");
  hash_password->footer("The password is the first line of standard input. On a terminal, the command prompts for it.");
  hash_password->callback([&] { command.action = Command::Action::hash_password; });
}

void add_keys(CLI::App& app, Command& command) {
  CLI::App* keys = app.add_subcommand("keys", "Make a key for tokens, and print the policy of type \"jwt\" for it");
  keys->add_option_function<std::string>(
          "--alg", [&](const std::string& name) { command.keys.algorithm = *gateway::jwt::parse_algorithm(name); },
          "HS256, RS256, PS256, ES256, one of these with 384 or 512, or EdDSA; default: ES256")
      ->option_text("ALG")
      ->check(check_algorithm);
  keys->add_option("--kid", command.keys.id,
                   "The key's id, also the beginning of the files' names; default: a part of the key's thumbprint")
      ->option_text("ID")
      ->check([](const std::string& text) { return check_key_id(text); });
  keys->add_option("--out", command.keys.folder, "The folder for the files; default: the working directory")
      ->option_text("DIR");
  keys->footer(
      "Writes ID.key.pem, ID.pub.pem and ID.jwks.json, or ID.secret for HS256, HS384 and HS512. Existing files are "
      "not overwritten.");
  keys->callback([&] { command.action = Command::Action::keys; });
}

void add_token(CLI::App& app, Command& command) {
  CLI::App* token = app.add_subcommand("token", "Sign a token for a policy of type \"jwt\", for development and tests");
  token->add_option("--key", command.token.key, "A PEM private key, or a file with a secret")
      ->option_text("FILE")
      ->required();
  token
      ->add_option_function<std::string>(
          "--alg", [&](const std::string& name) { command.token.algorithm = gateway::jwt::parse_algorithm(name); },
          "The algorithm; default: that of the key, which is RS256 for RSA and HS256 for a secret")
      ->option_text("ALG")
      ->check(check_algorithm);
  token->add_option("--kid", command.token.id, "The key's id; default: the one in NAME.jwks.json beside NAME.key.pem")
      ->option_text("ID");
  token
      ->add_option_function<std::string>(
          "--expires", [&](const std::string& text) { command.token.expires = config::parse_duration(text); },
          "How long the token is valid; default: 1h")
      ->option_text("DURATION")
      ->check(check_expires);
  token->add_option("--issuer", command.token.issuer, "The claim \"iss\"")->option_text("TEXT");
  token->add_option("--audience", command.token.audience, "The claim \"aud\"")->option_text("TEXT");
  token->add_option("--subject", command.token.subject, "The claim \"sub\"")->option_text("TEXT");
  token
      ->add_option("--claim", command.token.claims,
                   "Another claim: role=admin, level=3, tags='[\"a\",\"b\"]'. A value that is not JSON is text. Repeat "
                   "the option for more claims")
      ->option_text("NAME=VALUE")
      ->check(check_claim)
      ->allow_extra_args(false);
  token->callback([&] { command.action = Command::Action::token; });
}

void add_rooms(CLI::App& app, Command& command) {
  CLI::App* rooms = app.add_subcommand("rooms", "Prepare a database for [[room]]");
  rooms->require_subcommand(1);
  CLI::App* sql = rooms->add_subcommand("sql", "Print the statements that make the counters and triggers of rooms");
  sql->add_flag("--apply", command.apply, "Execute the statements; they may be executed again");
  sql->callback([&] { command.action = Command::Action::rooms_sql; });
  add_file(*sql, command);
}

void add_login(CLI::App& app, Command& command) {
  CLI::App* login = app.add_subcommand("login", "Prepare a database for [login]");
  login->require_subcommand(1);
  CLI::App* sql = login->add_subcommand("sql", "Print the statements that make the tables of [login]");
  sql->add_flag("--apply", command.apply, "Execute the statements; tables that exist are left alone");
  sql->callback([&] { command.action = Command::Action::login_sql; });
  add_file(*sql, command);

  using Does = UserCommand::Does;
  CLI::App* user = app.add_subcommand("user", "Add or change a user in the table of [login.users]");
  user->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, Does does) {
    CLI::App* one = user->add_subcommand(name, about);
    one->add_option("NAME", command.user.name, "The name that the user logs in with")->required();
    one->add_option("--config", command.file, "The configuration file")->option_text("FILE  (default: sluice.toml)");
    one->callback([&command, does] {
      command.action = Command::Action::user;
      command.user.does = does;
    });
    if (does != Does::disable) {
      one->footer("The password is the first line of standard input. On a terminal, the command prompts for it.");
    }
    return one;
  };
  add("add", "Add a user", Does::add)
      ->add_option("--set", command.user.columns,
                   "The value of another column: role=admin. Repeat the option for more columns")
      ->option_text("COLUMN=VALUE")
      ->check(check_claim)
      ->allow_extra_args(false);
  add("password", "Give a user a new password, and end the user's log-ins", Does::password);
  add("disable", "Take a user's password away, and end the user's log-ins", Does::disable);
}

void add_store(CLI::App& app, Command& command) {
  CLI::App* store = app.add_subcommand("store", "Maintain the files of [store.NAME]");
  store->require_subcommand(1);
  CLI::App* gc = store->add_subcommand("gc", "Remove unused files, as defined by `used` and `grace`");
  gc->add_flag("--dry-run", command.dry_run, "List the files that would be removed, and remove nothing");
  gc->add_option("--url", command.url,
                 "The URL to read the database with, instead of the configuration's: for a login that may read every "
                 "table that `used` names")
      ->option_text("URL")
      ->check([](const std::string& text) { return sql::DatabaseOptions::check_url(text); });
  gc->callback([&] { command.action = Command::Action::store_gc; });
  add_file(*gc, command);
}

void add_test(CLI::App& app, Command& command) {
  CLI::App* test = app.add_subcommand("test", "Run test files, each on a new database, and print TAP");
  test->add_option("FILE", command.suites.files, "Test files (.sluicetest)")->required();
  test->add_option(
          "--database", command.suites.databases,
          "Where to create the databases: sqlite (the default), or a PostgreSQL URL. If the option is repeated, "
          "each file runs once for each value")
      ->option_text("sqlite|postgres://...")
      ->allow_extra_args(false);
  test->add_option("--filter", command.suites.filter,
                   "Report only steps whose name contains TEXT; the steps before them run too")
      ->option_text("TEXT");
  test->add_flag("--keep", command.suites.keep, "Keep the databases, and print where they are");
  test->add_flag("--verbose", command.suites.verbose, "Show all requests and answers, as comments");
  test->footer(
      "Exit codes: 0 all tests passed; 1 some tests failed; 2 the command line is wrong; 3 a file or the configuration "
      "is wrong.");
  test->callback([&] { command.action = Command::Action::test; });
}

void add_import(CLI::App& app, Command& command) {
  CLI::App* import_ =
      app.add_subcommand("import", "Write the rows of a file into a table, in batches; a repeated run resumes");
  import_->add_option("TABLE", command.import_options.table, "The table, or schema.table")->required();
  import_
      ->add_option("FILE", command.import_options.file, "A CSV, CSJ, NDJSON or JSON file, or \"-\" for standard input")
      ->required();
  import_->add_option("--config", command.import_options.configuration, "The configuration file that has the database")
      ->capture_default_str();
  import_
      ->add_option("--database", command.import_options.database,
                   "A database of the configuration, or a URL; with a URL no configuration is read")
      ->option_text("NAME|URL");
  import_
      ->add_option("--format", command.import_options.format,
                   "csv, csj, ndjson or json; default: by the file's extension")
      ->option_text("FORMAT");
  import_
      ->add_option("--delimiter", command.import_options.delimiter,
                   "The separator of CSV fields: one character, or \\t for a tab; default: a comma")
      ->option_text("CHARACTER");
  import_
      ->add_option("--key", command.import_options.keys,
                   "A key column; repeat the option for more columns; default: the primary key")
      ->option_text("COLUMN")
      ->allow_extra_args(false);
  import_->add_option("--batch", command.import_options.batch, "How many rows each transaction writes")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}));
  import_->add_flag("--dry-run", command.import_options.dry_run, "Count what would change, and change nothing");
  import_->add_flag("--restart", command.import_options.restart,
                    "Start with the first row, even if an earlier run can be resumed");
  import_->callback([&] { command.action = Command::Action::import_; });
}

void add_query(CLI::App& app, Command& command) {
  CLI::App* query = app.add_subcommand("query", "Print the rows of an SQL statement, as they arrive");
  query->add_option("DATABASE", command.query.database, "A SQLite file, or a URL of PostgreSQL")
      ->required()
      ->check(check_query_database);
  query->add_option("STATEMENT", command.query.statement, "The statement; :NAME stands for a value of --param")
      ->required();
  query
      ->add_option_function<std::string>(
          "--format", [&](const std::string& name) { command.query.format = *sql::format_of_extension(name); },
          "csv, csj, ndjson or json; default: csv")
      ->option_text("FORMAT")
      ->check(CLI::IsMember({"csv", "csj", "ndjson", "json"}));
  query
      ->add_option("--param", command.query.parameters,
                   "The value of a parameter of the statement; repeat the option for more parameters")
      ->option_text("NAME=VALUE")
      ->check(check_claim)
      ->allow_extra_args(false);
  query->add_option("--output", command.query.output, "The file to write, which is replaced when it is complete")
      ->option_text("FILE  (default: standard output)");
  query->add_flag("--write", command.query.writes, "The statement may change the database; it is committed");
  query->footer(
      "Exit codes: 0 all rows are written; 1 the statement or the connection failed, or the output cannot be written; "
      "2 the command line is wrong; 130 interrupted; 141 the reader of standard output has gone.");
  query->callback([&] { command.action = Command::Action::query; });
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  Command command;
  CLI::App app("Puts a database, files and services behind one fast HTTP endpoint.", "sluice");
  app.set_version_flag("--version", version_text());
  app.get_option("--version")->description("Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Exit codes: 0 success; 1 the command could not run, or a test failed; 2 the command line is wrong; 3 the "
      "configuration is wrong.");

  add_serve(app, command);
  add_init(app, command);
  CLI::App* check = app.add_subcommand("check", "Report the errors in the configuration, and exit");
  check->callback([&] { command.action = Command::Action::check; });
  add_file(*check, command);
  add_explain(app, command);
  add_reload(app, command);
  add_health(app, command);
  add_proxy(app, command);
  CLI::App* reference = app.add_subcommand("reference", "Print the reference of all configuration keys, in Markdown");
  reference->callback([&] { command.action = Command::Action::reference; });
  add_hash_password(app, command);
  add_keys(app, command);
  add_token(app, command);
  add_login(app, command);
  add_rooms(app, command);
  add_store(app, command);
  add_test(app, command);
  add_import(app, command);
  add_query(app, command);
  std::string shell;
  add_texts(app, command, shell);

  std::string_view first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && std::ranges::find(commands, first) == commands.end()) {
    command.action = Command::Action::usage_error;
    command.text = unknown_command(first);
    return command;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, wrong;
    app.exit(error, out, wrong);
    bool is_answer = error.get_exit_code() == 0;  // --help and --version throw, too
    command.action = is_answer ? Command::Action::print : Command::Action::usage_error;
    command.text = is_answer ? out.str() : "sluice: ";
    // A word that is not expected may be a URL with a password.
    if (!is_answer) Redaction().append_address(command.text, wrong.str());
  }
  return command;
}

}  // namespace sluice::app
