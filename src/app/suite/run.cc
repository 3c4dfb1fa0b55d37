#include "app/suite/run.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <stdlib.h>

#include "app/commands/exit_code.h"
#include "app/config/load.h"
#include "app/config/text.h"
#include "app/suite/client.h"
#include "app/suite/database.h"
#include "app/suite/diff.h"
#include "app/suite/file.h"
#include "app/suite/server.h"
#include "app/suite/signals.h"
#include "app/suite/step.h"
#include "app/suite/tap.h"
#include "app/suite/token.h"
#include "core/reactor.h"

namespace sluice::app::suite {
namespace {

constexpr Duration begin_patience = 60s;  // for the scripts and the server's start
constexpr Duration end_patience = 15s;

// Sets a file's environment variables while this object exists.
class EnvironmentScope {
 public:
  explicit EnvironmentScope(const Texts& variables) {
    for (const auto& [name, value] : variables) {
      const char* const before = std::getenv(name.value.c_str());
      before_.emplace_back(name.value, before == nullptr ? std::nullopt : std::optional<std::string>(before));
      ::setenv(name.value.c_str(), value.value.c_str(), 1);
    }
  }
  EnvironmentScope(const EnvironmentScope&) = delete;
  ~EnvironmentScope() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// A temporary folder that only this user can access. It is removed with its contents.
class Folder {
 public:
  Folder() {
    const char* const wanted = std::getenv("TMPDIR");
    // The path of a unix socket has at most 107 bytes.
    constexpr std::size_t longest = 60;
    std::string path = wanted != nullptr && *wanted == '/' && std::strlen(wanted) <= longest ? wanted : "/tmp";
    path += "/sluice-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path);
    path_ = path;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

// A test file, and the configuration that it tests, for each kind of database that the file runs on.
struct Loaded {
  Suite suite;
  std::map<DatabaseKind, config::Config> configs;
};

// Chooses the only policy if none is named.
void choose_policy(StepOptions& step, const app::Options& options, config::Errors& errors) {
  Located<std::string>& chosen = step.token_policy;
  std::vector<std::string_view> names;
  for (const auto& [name, policy] : options.policies) {
    if (policy.is<gateway::jwt::Options>()) names.push_back(name.value);
  }
  const Position position = step.token->position;
  if (chosen.value.empty() && names.size() != 1) {
    errors.list.push_back({position,
                           names.empty() ? "the configuration has no policy of type \"jwt\""
                                         : "this step must say which policy the token is for",
                           names.empty() ? "" : fmt::format("add token_policy = \"{}\"", names[0])});
    return;
  }
  if (chosen.value.empty()) chosen.value = names[0];
  if (std::ranges::find(names, chosen.value) == names.end()) {
    errors.list.push_back({chosen.position, fmt::format("no [policy.{}] has the type \"jwt\"", chosen.value),
                           config::did_you_mean(chosen.value, names)});
  } else if (!place_of_tokens(options.policies[*options.find_policy(chosen.value)].value.of<gateway::jwt::Options>())) {
    errors.list.push_back(
        {position, fmt::format("[policy.{}] takes tokens from the query string only", chosen.value), ""});
  }
}

std::expected<Loaded, std::string> load(const std::string& path, std::span<const Target> targets) {
  auto suite = load_suite(path);
  if (!suite) return std::unexpected(suite.error().text());
  const EnvironmentScope environment(suite->options.environment);
  const std::string file = suite->file(suite->options.config.value);
  std::map<DatabaseKind, config::Config> configs;
  for (const Target& target : targets) {
    if (!suite->runs_on(target.kind) || configs.contains(target.kind)) continue;
    const bool sqlite = target.kind == DatabaseKind::sqlite;
    auto loaded = config::load(file, config::process_environment, sqlite ? "sqlite:" : target.url);
    if (!loaded) return std::unexpected(loaded.error().text());
    configs.emplace(target.kind, std::move(*loaded));
  }
  if (configs.empty()) return Loaded{std::move(*suite), {}};
  const config::Config* const config = &configs.begin()->second;

  config::Errors errors{.source = suite->source, .list = {}};
  std::vector<std::string_view> names;
  for (const auto& database : config->options.databases) names.push_back(database.name.value);
  const auto check = [&](const Located<std::string>& name) {
    if (std::ranges::find(names, name.value) != names.end()) return;
    errors.list.push_back({name.position,
                           fmt::format("{} has no [database.{}]", suite->options.config.value, name.value),
                           config::did_you_mean(name.value, names)});
  };
  for (const auto& database : suite->options.databases) check(database.name);
  for (Step& step : suite->steps) {
    if (step.token) choose_policy(step.options, config->options, errors);
    if (step.is_request()) continue;
    Located<std::string>& name = step.options.database;
    if (!name.value.empty()) {
      check(name);
    } else if (names.size() == 1) {
      name.value = names[0];
    } else {
      errors.list.push_back(
          {step.options.position, "this step must say which database its \"sql\" is for",
           names.empty() ? "the configuration has none" : fmt::format("add database = \"{}\"", names[0])});
    }
  }
  if (!errors.list.empty()) return std::unexpected(errors.text());
  return Loaded{std::move(*suite), std::move(configs)};
}

// Runs one file on one kind of database.
class Run {
 public:
  Run(const Loaded& loaded, const Target& target, const RunOptions& options, std::string prefix, Tap& tap,
      Signals& signals)
      : suite_(loaded.suite),
        config_(loaded.configs.at(target.kind)),
        target_(target),
        options_(options),
        prefix_(std::move(prefix)),
        tap_(tap),
        signals_(signals),
        environment_(suite_.options.environment),
        reactor_(core::make_epoll_reactor()),
        server_(folder_.path()) {}

  // Returns the program's exit code for this file.
  int run() {
    const std::vector<bool> reported = choose();
    if (std::ranges::find(reported, true) == reported.end()) return exit_ok;
    if (const int code = begin(); code != exit_ok) {
      if (!signals_.interrupted()) tap_.comment(fmt::format("{}{} steps were not run", prefix_, suite_.steps.size()));
      end();
      return code;
    }
    Variables variables;
    for (const auto& [name, value] : suite_.variables) {
      if (auto expanded = expand(value, variables)) variables.values[name] = std::move(*expanded);
    }
    const auto last =
        static_cast<std::size_t>(std::ranges::find(reported.rbegin(), reported.rend(), true).base() - reported.begin());
    int code = exit_ok;
    for (std::size_t i = 0; i < last && !signals_.interrupted(); ++i) {
      if (!run_step(suite_.steps[i], variables, reported[i])) code = exit_failure;
    }
    return end() ? code : int{exit_failure};
  }

 private:
  // Which steps are reported. Steps before the last of these run too, because it may depend on them.
  [[nodiscard]] std::vector<bool> choose() const {
    std::vector<bool> reported;
    for (const Step& step : suite_.steps) reported.push_back(step.name.contains(options_.filter));
    return reported;
  }

  int fail_to_begin(std::string_view what, const std::string& said, int code) {
    if (!signals_.interrupted()) tap_.not_ok(fmt::format("{}{}", prefix_, what), {{"message", said}});
    return code;
  }

  // Creates the databases and their schemas, and starts the server.
  int begin() {
    const Instant deadline = now() + begin_patience;
    config::Config config = config_;
    for (auto& [name, database] : config.options.databases) {
      auto created = Database::create(target_, folder_.path(), *reactor_, signals_);
      if (!created) return fail_to_begin("a database is created", created.error(), exit_failure);
      database.url.value = (*created)->url();
      database.folder.clear();
      const auto options =
          std::ranges::find_if(suite_.options.databases, [&](const auto& one) { return one.name.value == name.value; });
      Database& fresh = *databases_.emplace(name.value, std::move(*created)).first->second;
      if (options == suite_.options.databases.end()) continue;
      for (const auto& script : options->value.schema) {
        const std::string file = schema_file(script.value, target_.kind);
        if (const auto done = fresh.run_file(suite_.file(file), deadline); !done) {
          return fail_to_begin(file, done.error(), exit_failure);
        }
      }
    }
    for (auto& [name, store] : config.options.stores) store.path.value = folder_.path() + "/store-" + name.value;
    auto tokens = Tokens::make(suite_, config.options);
    if (!tokens) return fail_to_begin("tokens are signed", tokens.error(), exit_configuration);
    tokens_ = std::move(*tokens);
    if (auto started = server_.start(std::move(config), deadline, signals_); !started) {
      return fail_to_begin(suite_.options.config.value + " is served", started.error().text, started.error().exit_code);
    }
    return exit_ok;
  }

  // Returns false if the step failed.
  bool run_step(const Step& step, Variables& variables, bool is_reported) {
    const std::string name = prefix_ + step.name;
    if (step.options.only && step.options.only->value != target_.kind) {
      if (is_reported) tap_.skip(name, "on this database");
      return true;
    }
    const std::size_t log_begin = server_.log_size();
    const Instant deadline = now() + step.options.timeout.value_or(suite_.options.timeout);
    StepRun step_run(suite_, step, variables);
    if (step.is_request()) {
      step_run.run_request(server_.address(), tokens_, deadline, signals_);
    } else {
      step_run.run_statement(*databases_.at(step.options.database.value), deadline);
    }
    if (signals_.interrupted()) return false;
    if (options_.verbose) tap_.comment(step_run.transcript());
    if (step_run.passed()) {
      if (is_reported) tap_.ok(name);
      return true;
    }
    if (!is_reported) {
      tap_.comment(fmt::format("{} (not in the filter) has failed: {}", name, step_run.message()));
      return true;
    }
    Tap::Details details = step_run.details();
    if (const std::string log = server_.log(log_begin); !log.empty()) details.emplace_back("server_log", cut(log));
    if (const std::string death = server_.death(); !death.empty())
      details.emplace_back("server", "it has ended: " + death);
    tap_.not_ok(name, details);
    return false;
  }

  // Stops the server and removes the databases. Returns false if something went wrong.
  bool end() {
    bool good = true;
    const auto stopped = server_.stop(now() + end_patience);
    if (!stopped && !signals_.interrupted()) {
      tap_.not_ok(prefix_ + "the server stops", {{"message", cut(stopped.error().text)}});
      good = false;
    }
    for (const auto& [name, database] : databases_) {
      if (options_.keep) {
        database->keep();
        folder_.keep();
        tap_.comment(fmt::format("{}[database.{}] is kept: {}", prefix_, name, database->name()));
      } else if (const auto dropped = database->drop(); !dropped) {
        tap_.not_ok(prefix_ + "the database is dropped", {{"message", dropped.error()}});
        good = false;
      }
    }
    return good;
  }

  const Suite& suite_;
  const config::Config& config_;
  const Target& target_;
  const RunOptions& options_;
  std::string prefix_;
  Tap& tap_;
  Signals& signals_;
  EnvironmentScope environment_;
  Folder folder_;
  std::unique_ptr<core::Reactor> reactor_;
  std::map<std::string, std::unique_ptr<Database>> databases_;
  Tokens tokens_;
  Server server_;  // destroyed first, because it uses the databases
};

}  // namespace

int run_suites(const RunOptions& options, std::FILE* out, std::FILE* errors) {
  std::vector<Target> targets;
  for (const std::string& text : options.databases) {
    auto target = parse_target(text);
    if (!target) {
      fmt::print(errors, "sluice: --database: {}\n", target.error());
      return exit_usage;
    }
    targets.push_back(std::move(*target));
  }
  if (targets.empty()) targets.emplace_back();

  std::vector<Loaded> suites;
  bool all_good = true;
  for (const std::string& file : options.files) {
    auto loaded = load(file, targets);
    if (loaded) {
      suites.push_back(std::move(*loaded));
      continue;
    }
    std::fputs(loaded.error().c_str(), errors);
    all_good = false;
  }
  if (!all_good) return exit_configuration;
  const auto has_chosen = [&](const Loaded& one) {
    return std::ranges::any_of(one.suite.steps, [&](const Step& step) { return step.name.contains(options.filter); });
  };
  if (!options.filter.empty() && std::ranges::none_of(suites, has_chosen)) {
    fmt::print(errors, "sluice: --filter: no step's name contains \"{}\"\n", options.filter);
    return exit_usage;
  }

  int signal = 0;
  int code = exit_ok;
  {
    Signals signals;
    Tap tap(out);
    for (const Loaded& loaded : suites) {
      const bool runs = std::ranges::any_of(targets, [&](const Target& one) { return loaded.suite.runs_on(one.kind); });
      if (!runs) tap.skip(loaded.suite.source.name(), "not for this database: see --database");
      for (const Target& target : targets) {
        if (signals.interrupted() || !loaded.suite.runs_on(target.kind)) continue;
        std::string prefix;
        if (suites.size() > 1) prefix += loaded.suite.source.name() + ": ";
        if (targets.size() > 1) prefix += target.kind == DatabaseKind::sqlite ? "sqlite: " : "postgres: ";
        code = std::max(code, Run(loaded, target, options, std::move(prefix), tap, signals).run());
      }
    }
    if (signals.interrupted()) {
      tap.bail_out("interrupted by a signal");
      signal = signals.signal();
    } else {
      tap.plan();
      if (tap.failed() != 0) tap.comment(fmt::format("{} of {} failed", tap.failed(), tap.count()));
    }
  }
  if (signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  return code;
}

}  // namespace sluice::app::suite
