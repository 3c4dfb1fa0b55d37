#include "app/program/program.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <expected>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "api/failures.h"
#include "app/commands/cli.h"
#include "app/commands/development.h"
#include "app/commands/hash_password.h"
#include "app/commands/keys.h"
#include "app/commands/query.h"
#include "app/commands/rooms.h"
#include "app/commands/reload.h"
#include "app/commands/store_gc.h"
#include "app/commands/token.h"
#include "app/components/policy/policy_keys.h"
#include "app/components/service/registry.h"
#include "app/config/load.h"
#include "app/config/reference.h"
#include "app/explain/command.h"
#include "app/import/import.h"
#include "app/prepare/prepare.h"
#include "app/prepare/statement_errors.h"
#include "app/serve.h"
#include "app/suite/run.h"

namespace sluice::app {
namespace {

// Makes malloc() map large blocks, such as the 19 MiB of each password check, and return them to the system when they
// are freed. By default, its threshold grows to the largest block that was ever freed, and such blocks then remain in
// the heaps of their threads.
void return_large_blocks() {
  mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024);
  mallopt(M_TRIM_THRESHOLD, 8 * 1024 * 1024);
}

// A program that is started without standard streams would otherwise write its log into its first socket.
void open_standard_streams() {
  for (int descriptor = ::open("/dev/null", O_RDWR); descriptor >= 0; descriptor = ::open("/dev/null", O_RDWR)) {
    if (descriptor <= STDERR_FILENO) continue;
    ::close(descriptor);
    return;
  }
}

// Serves a database or a folder: returns its configuration. An error is a message.
std::expected<std::string, std::string> configuration_of(const Command& command) {
  if (kind_of(command.file) == Served::folder) return serve_folder(command.file, command.start);
  auto made = serve_database(command.file, command.start);
  if (!made) return std::unexpected(std::move(made.error()));
  for (const std::string& warning : made->warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  return std::move(made->text);
}

int run_command(Command command) {
  bool is_started = false;  // without a configuration file
  const auto start = [&](const std::expected<std::string, std::string>& configuration, int code) {
    if (configuration)
      command.file = file_of(*configuration);
    else
      std::fprintf(stderr, "sluice: %s\n", configuration.error().c_str());
    return configuration ? exit_ok : code;
  };
  switch (command.action) {
    case Command::Action::print:
      std::fputs(command.text.c_str(), stdout);
      return exit_ok;
    case Command::Action::usage_error:
      std::fputs(command.text.c_str(), stderr);
      return exit_usage;
    case Command::Action::reference:
      std::fputs(config::reference().c_str(), stdout);
      return exit_ok;
    case Command::Action::hash_password:
      return print_hash(stdout, stderr);
    case Command::Action::keys:
      return make_keys(command.keys, stdout, stderr);
    case Command::Action::token:
      return print_token(command.token, stdout, stderr);
    case Command::Action::import_:
      return import::run_import(command.import_options, stdout, stderr);
    case Command::Action::query:
      return run_query(command.query, stderr);
    case Command::Action::test:
      return suite::run_suites(command.suites, stdout, stderr);
    case Command::Action::health:
      return check_health(command.health, stderr);
    case Command::Action::reload:
      return request_reload(command.admin, command.file, stdout, stderr);
    case Command::Action::init:
      return write_configuration(command.start, stdout, stderr);
    case Command::Action::proxy: {
      const auto configuration = proxy_configuration(command.proxy);
      if (configuration && command.proxy.print) {
        std::fputs(configuration->c_str(), stdout);
        return exit_ok;
      }
      if (const int code = start(configuration, exit_usage); code != exit_ok) return code;
      break;
    }
    case Command::Action::serve:
      if (kind_of(command.file) != Served::configuration) {
        if (const int code = start(configuration_of(command), exit_failure); code != exit_ok) return code;
        is_started = true;
      } else if (command.file == "sluice.toml" && ::access("sluice.toml", F_OK) != 0) {
        std::fputs(nothing_to_serve().c_str(), stderr);
        return exit_configuration;
      }
      break;
    case Command::Action::store_gc:
    case Command::Action::login_sql:
    case Command::Action::rooms_sql:
    case Command::Action::user:
    case Command::Action::check:
    case Command::Action::explain:
      break;
  }
  auto examined = config::examine(command.file, config::process_environment);
  if (!examined.errors.empty()) {
    add_key_errors(examined.config.options.policies, examined.errors);
    add_statement_errors(examined.config, examined.errors);
  }
  const auto config = config::outcome(std::move(examined));
  if (!config) {
    std::fputs(config.error().text().c_str(), stderr);
    return exit_configuration;
  }
  if (command.action == Command::Action::store_gc)
    return collect_garbage(*config, command.dry_run, command.url, stdout, stderr);
  if (command.action == Command::Action::rooms_sql) return room_tables(*config, command.apply, stdout, stderr);
  if (command.action == Command::Action::login_sql) return login_tables(*config, command.apply, stdout, stderr);
  if (command.action == Command::Action::user) return change_user(*config, command.user, stdout, stderr);
  std::optional<DevelopmentWatch> watch;
  if (command.development) {
    is_development = api::Failures::tells_clients = true;
    if (auto faults = development_faults(config->options); !faults.empty()) {
      std::fputs(config::Errors{.source = config->source, .list = std::move(faults)}.text().c_str(), stderr);
      return exit_configuration;
    }
  }
  const auto plan =
      prepare(*config, command.action == Command::Action::serve || command.action == Command::Action::proxy);
  if (!plan) {
    std::fputs(plan.error().text.c_str(), stderr);
    return plan.error().exit_code;
  }
  if (command.action == Command::Action::explain) {
    const auto keys = keys_for(command.explain, **plan);
    if (!keys) {
      std::fprintf(stderr, "sluice: %s\n", keys.error().c_str());
      return exit_usage;
    }
    const auto [text, is_answered] = print_explanation(command.explain, **plan, *keys);
    std::fputs(text.c_str(), stdout);
    return is_answered ? exit_ok : exit_failure;
  }
  for (const std::string& warning : (*plan)->warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (command.action == Command::Action::check) {
    for (const std::string& hint : (*plan)->hints) std::fprintf(stderr, "hint: %s\n", hint.c_str());
    std::printf("%s: ok\n", command.file.c_str());
    return exit_ok;
  }
  const bool opens = is_started && !command.start.stays && ::isatty(STDOUT_FILENO) == 1;
  if (command.development) watch.emplace(config->source);
  return serve(config->source, *plan, opens ? open_browser : nullptr);
}

}  // namespace
}  // namespace sluice::app

namespace sluice {

void Program::add_entry(std::string_view name, services::MakeService make) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (name.empty() || !std::ranges::all_of(name, is_plain)) {
    throw std::invalid_argument("the name of a service has letters, digits, '-' and '_': \"" + std::string(name) + '"');
  }
  auto& entries = app::service_entries();
  auto entry = std::ranges::find(entries, name, &app::ServiceEntry::name);
  if (entry == entries.end()) entry = entries.insert(entry, {.name = std::string(name), .make = {}});
  entry->make.push_back(std::move(make));
}

int Program::run(int count, char** arguments) {
  app::return_large_blocks();
  app::open_standard_streams();
  try {
    return app::run_command(app::parse_command_line(count, arguments));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: %s\n", error.what());
    return app::exit_failure;
  }
}

}  // namespace sluice
