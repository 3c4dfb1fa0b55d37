#include "sql.h"

#include <string_view>

#include <fmt/format.h>

#include "json.h"

namespace case_study {
namespace {

constexpr std::string_view postgres_tables = R"(
CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, email text NOT NULL, title text NOT NULL,
  department text NOT NULL, roles text[] NOT NULL, active boolean NOT NULL, created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL, address json NOT NULL, settings json NOT NULL,
  about text NOT NULL);
)";
constexpr std::string_view postgres_index = R"(
CREATE INDEX users_roles ON users USING gin (roles);
ANALYZE users;
)";

constexpr std::string_view sqlite_tables = R"(
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, title TEXT NOT NULL,
  department TEXT NOT NULL, roles JSON NOT NULL, active BOOLEAN NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, address JSON NOT NULL, settings JSON NOT NULL, about TEXT NOT NULL);
)";
constexpr std::string_view sqlite_index = R"(
CREATE TABLE user_roles (role TEXT, user INTEGER, PRIMARY KEY (role, user)) WITHOUT ROWID;
INSERT INTO user_roles SELECT value, users.id FROM users, json_each(roles);
ANALYZE;
)";

std::string sql_string(std::string_view text) {
  std::string literal = "'";
  for (const char c : text) {
    if (c == '\'') literal += c;
    literal += c;
  }
  return literal + "'";
}

std::string roles_of(const User& user, Dialect dialect) {
  if (dialect == Dialect::sqlite) return sql_string(nlohmann::json(user.roles).dump());
  std::string array;
  for (const std::string& role : user.roles) array += (array.empty() ? "" : ",") + sql_string(role);
  return fmt::format("ARRAY[{}]::text[]", array);
}

}  // namespace

std::string users_as_sql(std::span<const User> users, Dialect dialect) {
  const bool postgres = dialect == Dialect::postgres;
  std::string script = "BEGIN;";
  script += postgres ? postgres_tables : sqlite_tables;
  for (const User& user : users) {
    script +=
        fmt::format("INSERT INTO users VALUES ({},{},{},{},{},{},{},{},{},{},{},{});\n", user.id, sql_string(user.name),
                    sql_string(user.email), sql_string(user.title), sql_string(user.department),
                    roles_of(user, dialect), user.active, sql_string(user.created_at), sql_string(user.updated_at),
                    sql_string(nlohmann::json(user.address).dump()), sql_string(nlohmann::json(user.settings).dump()),
                    sql_string(user.about));
  }
  script += "COMMIT;";
  script += postgres ? postgres_index : sqlite_index;
  return script;
}

}  // namespace case_study
