#include "app/cli.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "app/config/text.h"

namespace sluice::app {
namespace {

constexpr std::array<std::string_view, 7> commands = {"serve",  "check", "reload",   "test",
                                                      "import", "store", "reference"};

// A first word that is no command, which the library only calls a missing one.
std::string unknown_command(std::string_view word) {
  std::string text = "sluice: there is no command \"" + std::string(word) + "\"";
  std::string_view meant = config::nearest(word, commands);
  if (word.ends_with(".toml")) {
    text += "; did you mean \"sluice serve " + std::string(word) + "\"?";
  } else if (word.ends_with(".sluicetest")) {
    text += "; did you mean \"sluice test " + std::string(word) + "\"?";
  } else if (!meant.empty()) {
    text += "; did you mean \"" + std::string(meant) + "\"?";
  }
  return text + "\nRun with --help for more information.\n";
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  Command command;
  CLI::App app("Puts a database, files and services behind one fast HTTP endpoint.", "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.get_option("--version")->description("Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Exit codes: 0 done; 1 it could not run, or a test has failed; 2 the command line is wrong; 3 the configuration "
      "is wrong.");

  CLI::App* serve = app.add_subcommand("serve", "Run what the configuration says, until SIGTERM");
  CLI::App* check = app.add_subcommand("check", "Say what is wrong with the configuration, and exit");
  CLI::App* reload = app.add_subcommand("reload", "Have a server that runs read its configuration again");
  reload->add_option("--admin", command.admin, "Where its admin listener is: http://ADDRESS:PORT, or unix:PATH")
      ->capture_default_str()
      ->option_text("URL  (default: http://127.0.0.1:8081)");
  reload->footer(
      "Exit codes: 0 it answers by the new configuration; 1 it cannot be reached, or refused to; 2 the command line is "
      "wrong; 3 the configuration is wrong, and nothing has changed.");
  reload->callback([&] { command.action = Command::Action::reload; });
  CLI::App* reference = app.add_subcommand("reference", "Print the reference of all configuration keys, in Markdown");
  CLI::App* store = app.add_subcommand("store", "Tend the files of [store.NAME]");
  store->require_subcommand(1);
  CLI::App* gc = store->add_subcommand("gc", "Remove the files that nothing uses, as `used` and `grace` say");
  gc->add_flag("--dry-run", command.dry_run, "Only say what would be removed");
  gc->callback([&] { command.action = Command::Action::store_gc; });
  for (CLI::App* with_file : {serve, check, gc}) {
    with_file->add_option("FILE", command.file, "The configuration file")
        ->capture_default_str()
        ->option_text("[FILE]  (default: sluice.toml)");
  }
  CLI::App* test = app.add_subcommand("test", "Run files of tests, each on a new database, and print TAP");
  test->add_option("FILE", command.suites.files, "Files of tests (.sluicetest)")->required();
  test->add_option("--database", command.suites.databases,
                   "Where databases are made: sqlite (the default), or a URL of PostgreSQL. Several: each file on each")
      ->option_text("sqlite|postgres://...")
      ->allow_extra_args(false);
  test->add_option("--filter", command.suites.filter,
                   "Report only steps whose name holds the text; those above run too")
      ->option_text("TEXT");
  test->add_flag("--keep", command.suites.keep, "Leave the databases, and say where they are");
  test->add_flag("--verbose", command.suites.verbose, "Show all requests and answers, as comments");
  test->footer(
      "Exit codes: 0 all passed; 1 some failed; 2 the command line is wrong; 3 a file or the configuration is wrong.");
  test->callback([&] { command.action = Command::Action::test; });
  CLI::App* import_ =
      app.add_subcommand("import", "Write the rows of a file into a table, in batches that go on where they ended");
  import_->add_option("TABLE", command.import_options.table, "The table, or schema.table")->required();
  import_->add_option("FILE", command.import_options.file, "A CSV, CSJ, NDJSON or JSON file; \"-\": standard input")
      ->required();
  import_->add_option("--config", command.import_options.configuration, "The configuration that has the database")
      ->capture_default_str();
  import_
      ->add_option("--database", command.import_options.database,
                   "Which of its databases; or a URL, and no configuration is read")
      ->option_text("NAME|URL");
  import_
      ->add_option("--format", command.import_options.format,
                   "csv, csj, ndjson or json, where the name does not say it")
      ->option_text("FORMAT");
  import_
      ->add_option("--delimiter", command.import_options.delimiter,
                   "What stands between the fields of CSV: one character, or \\t for a tab; default: a comma")
      ->option_text("CHARACTER");
  import_
      ->add_option("--key", command.import_options.keys, "A column of the key, once for each; default: the primary key")
      ->option_text("COLUMN")
      ->allow_extra_args(false);
  import_->add_option("--batch", command.import_options.batch, "How many rows a transaction has")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}));
  import_->add_flag("--dry-run", command.import_options.dry_run, "Count what would change, and change nothing");
  import_->add_flag("--restart", command.import_options.restart,
                    "Begin with the first row, whatever was written before");
  import_->callback([&] { command.action = Command::Action::import_; });
  serve->callback([&] { command.action = Command::Action::serve; });
  check->callback([&] { command.action = Command::Action::check; });
  reference->callback([&] { command.action = Command::Action::reference; });

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
    bool is_answer = error.get_exit_code() == 0;  // --help and --version are thrown too
    command.action = is_answer ? Command::Action::print : Command::Action::usage_error;
    command.text = is_answer ? out.str() : "sluice: " + wrong.str();
  }
  return command;
}

}  // namespace sluice::app
