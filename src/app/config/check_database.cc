#include "app/config/check_database.h"

#include <string>

#include <fmt/format.h>

#include "api/role.h"
#include "api/source.h"

namespace sluice::app::config {
namespace {

void check_roles(sql::DatabaseOptions& database, const Environment& environment, const Complain& complain) {
  if (database.anonymous_role.value == "none") {
    complain(database.anonymous_role.position, "\"none\" is no role: PostgreSQL takes it for the login itself");
  }
  if (!database.role) return;
  if (std::string wrong = api::check_role(database.role->value); !wrong.empty()) {
    complain(database.role->position, "\"role\" " + wrong);
    return;
  }
  const auto source = *api::parse_source(database.role->value);
  if (source.from != api::From::environment) return;
  database.role_environment = environment(source.key);
  if (!database.role_environment && database.anonymous_role.value.empty()) {
    complain(database.role->position, fmt::format("the environment has no {}", source.key),
             "set it, or add anonymous_role");
  }
}

}  // namespace

void check_database(sql::DatabaseOptions& database, const Environment& environment, const Complain& complain) {
  const sql::DatabaseOptions defaults;
  if (!database.is_sqlite()) {
    if (database.untrusted.value) {
      complain(database.untrusted.position, "\"untrusted\" is for SQLite, and this database is PostgreSQL");
    }
    if (!database.prepared.value && database.pipeline.position.line != 0) {
      complain(database.pipeline.position,
               "\"pipeline\" needs prepared statements: without them, each request uses a connection of its own",
               "remove \"pipeline\" or \"prepared = false\"");
    }
    if (database.batch.value > 1 && !database.prepared.value) {
      complain(database.batch.position, "\"batch\" needs prepared statements, and \"prepared\" is false");
    }
    if (database.batch.value > database.pipeline.value) {
      complain(database.batch.position, "\"batch\" is larger than \"pipeline\"");
    }
    check_roles(database, environment, complain);
    for (auto& [name, setting] : database.settings) {
      const std::string wrong = api::check_setting(name.value, setting.from.value);
      if (!wrong.empty()) complain(name.position, fmt::format("\"{}\" {}", name.value, wrong));
      const auto source = api::parse_source(setting.from.value);
      if (source && source->from == api::From::environment) setting.environment = environment(source->key);
    }
    return;
  }
  if (database.prepared.value != defaults.prepared.value) {
    complain(database.prepared.position, "\"prepared\" is for PostgreSQL, and this database is SQLite");
  }
  if (database.start_timeout.position.line != 0) {
    complain(database.start_timeout.position, "\"start_timeout\" is for PostgreSQL, and this database is SQLite");
  }
  if (database.pipeline.value != defaults.pipeline.value) {
    complain(database.pipeline.position, "\"pipeline\" is for PostgreSQL, and this database is SQLite");
  }
  if (database.batch.value != defaults.batch.value) {
    complain(database.batch.position, "\"batch\" is for PostgreSQL, and this database is SQLite");
  }
  if (database.role) {
    complain(database.role->position, "\"role\" is for PostgreSQL, and this database is SQLite");
  }
  if (!database.settings.empty()) {
    complain(database.settings[0].name.position, "\"settings\" are for PostgreSQL, and this database is SQLite");
  }
  if (database.anonymous_role.position.line != 0) {
    complain(database.anonymous_role.position, "\"anonymous_role\" is for PostgreSQL, and this database is SQLite");
  }
}

}  // namespace sluice::app::config
