#include "app/commands/login.h"

#include <algorithm>
#include <expected>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/commands/hash_password.h"
#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "gateway/basic/password.h"
#include "login/families.h"
#include "login/fields.h"
#include "login/tables.h"
#include "services/databases.h"

namespace sluice::app {
namespace {

using services::Value;

// A name of SQL.
std::string sql_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

// The database of [login].
class LoginDatabase {
 public:
  LoginDatabase(const config::Config& config, std::FILE* errors) : errors_(errors) {
    const Options& options = config.options;
    if (!options.login) {
      fail("the configuration has no [login]");
      return;
    }
    auto opened =
        open_database(loop, options, options.databases[options.index_of_database(options.login->database.value)]);
    if (!opened) {
      fail(describe(opened.error()));
      return;
    }
    opened_ = std::move(*opened);
    databases_.set({{"users", std::shared_ptr<sql::Database>(opened_.database.get(), [](sql::Database*) {})}});
    database_ = &databases_.at("users");
  }
  [[nodiscard]] bool is_open() const { return database_ != nullptr; }
  services::Database& operator*() { return *database_; }
  services::Database* operator->() { return database_; }
  int fail(const std::string& why) {
    fmt::print(errors_, "sluice: {}\n", why);
    return exit_failure;
  }

  Loop loop;

 private:
  std::FILE* const errors_;
  OpenedDatabase opened_;
  services::Databases databases_{*loop.reactor};
  services::Database* database_ = nullptr;  // null: it could not be opened
};

// Ends the log-ins of a user whose password has changed. Returns an error, or nothing.
std::optional<std::string> end_logins(LoginDatabase& database, const login::Options& login, const std::string& name) {
  const auto parsed = sql::parse_parameters(login.query.value, sql::PlaceholderStyle::dollar);
  if (!parsed || parsed->names.size() != 1) return "the query has several parameters";
  const auto found = database.loop.run(database->read(login.query.value, Value(parsed->names.front(), name)));
  if (!found) return describe(found.error());
  if (found->empty()) return std::nullopt;
  login::Families families(*database, {.table = login.refresh.table.value});
  const std::int64_t now_s = database.loop.reactor->wall_clock_ns() / 1'000'000'000;
  const auto ended = database.loop.run(families.end_all(std::string(found->at(0, "sub").value_or("")), now_s));
  if (!ended) return describe(ended.error());
  return std::nullopt;
}

}  // namespace

int login_tables(const config::Config& config, bool apply, std::FILE* out, std::FILE* errors) {
  if (!config.options.login) {
    fmt::print(errors, "sluice: the configuration has no [login]\n");
    return exit_failure;
  }
  const login::Options& login = *config.options.login;
  const auto statements = login::statements_of_tables(login.refresh.table.value, login.tries.value);
  if (!apply) {
    for (const std::string& statement : statements) fmt::print(out, "{};\n", statement);
    return exit_ok;
  }
  LoginDatabase database(config, errors);
  if (!database.is_open()) return exit_failure;
  // One by one: a database prepares a statement only when its tables are there.
  for (const std::string& statement : statements) {
    const auto done = database.loop.run(database->write(statement));
    if (!done) return database.fail(describe(done.error()));
  }
  fmt::print(out, "The tables {} and {} are there.\n", login.refresh.table.value, login.tries.value);
  return exit_ok;
}

int change_user(const config::Config& config, const UserCommand& command, std::FILE* out, std::FILE* errors) {
  using Does = UserCommand::Does;
  const auto fail = [&](const std::string& why) {
    fmt::print(errors, "sluice: {}\n", why);
    return exit_failure;
  };
  if (!config.options.login || !config.options.login->users) return fail("the configuration has no [login.users]");
  const login::Options& login = *config.options.login;
  const login::UserOptions& users = *login.users;
  if (command.name.empty()) return fail("the name is empty");
  for (const std::string_view column : command.columns) {
    const std::string_view name = column.substr(0, column.find('='));
    if (name != users.name.value && name != users.password.value) continue;
    return fail(fmt::format("--set is for other columns than {}", name));
  }
  std::optional<std::string> password;
  if (command.does != Does::disable) {
    password = read_password(errors);
    if (!password) return exit_failure;
    if (password->size() > login::longest_password) return fail("the password is longer than 1,024 bytes");
    *password = gateway::basic::hash_password(*password);
  }
  LoginDatabase database(config, errors);
  if (!database.is_open()) return exit_failure;

  std::vector<Value> values{Value("name", command.name)};
  values.push_back(password ? Value("password", std::string_view(*password)) : Value("password", nullptr));
  std::string statement;
  if (command.does == Does::add) {
    std::string columns = sql_name(users.name.value) + ", " + sql_name(users.password.value);
    std::string parameters = ":name, :password";
    for (const std::string_view column : command.columns) {
      const std::size_t equals = column.find('=');
      const std::string parameter = "column_" + std::to_string(values.size());
      const std::string_view value = column.substr(equals + 1);
      const bool is_truth = value == "true" || value == "false";
      values.push_back(is_truth ? Value(parameter, value == "true") : Value(parameter, value));
      columns += ", " + sql_name(column.substr(0, equals));
      parameters += ", :" + parameter;
    }
    statement = fmt::format("INSERT INTO {} ({}) VALUES ({})", users.table.value, columns, parameters);
  } else {
    statement = fmt::format("UPDATE {} SET {} = :password WHERE {} = :name", users.table.value,
                            sql_name(users.password.value), sql_name(users.name.value));
  }
  const auto done = database.loop.run(database->write(statement, values, services::Database::patience));
  if (!done) {
    return fail(describe(done.error()));
  }
  if (done->changes() == 0) return fail(fmt::format("there is no user {}", command.name));
  if (command.does != Does::add) {
    if (const auto wrong = end_logins(database, login, command.name)) {
      return fail(
          fmt::format("the password of {} has changed, but log-ins go on until they expire: {}", command.name, *wrong));
    }
  }
  const std::string_view said[] = {"has been added", "has a new password, and has to log in again",
                                   "cannot log in any more"};
  fmt::print(out, "{} {}.\n", command.name, said[static_cast<std::size_t>(command.does)]);
  return exit_ok;
}

}  // namespace sluice::app
