#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "sql/database.h"

namespace sluice::sql {

inline NameOf<ParameterType> names_of(ParameterType) {
  return {{"text", ParameterType::text},      {"int", ParameterType::integer},  {"real", ParameterType::real},
          {"bool", ParameterType::boolean},   {"bytes", ParameterType::bytes},  {"text[]", ParameterType::texts},
          {"int[]", ParameterType::integers}, {"real[]", ParameterType::reals}, {"bool[]", ParameterType::booleans}};
}

// [database.NAME.settings]: a parameter of the session that each request sets.
struct SettingOptions {
  Located<std::string> from;                 // its syntax is checked by sluice::api
  std::optional<std::string> environment{};  // once loaded, the value if `from` is an environment variable that is set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("from", &SettingOptions::from,
            "Where the value comes from: `claim.NAME` of the verified JWT, `header.NAME`, `cookie.NAME`, `env.NAME`, "
            "`request.id`.",
            {.required = true});
    v.shorthand("from");
  }
};

// [database.NAME]. All counts are per core.
struct DatabaseOptions {
  Located<std::string> url;
  std::uint32_t pool = 8;
  Duration wait = 2s;
  Duration statement_timeout = 30s;
  ByteSize row_limit = 64_MiB;
  std::uint32_t statements = 256;
  Located<Duration> start_timeout = {10s};   // PostgreSQL only
  Located<bool> prepared = true;             // PostgreSQL only
  Located<std::uint32_t> pipeline = {128};   // PostgreSQL only
  Located<std::uint32_t> batch = {1};        // PostgreSQL only
  std::optional<Located<std::string>> role;  // PostgreSQL only; its syntax is checked by sluice::api
  std::optional<std::string>
      role_environment{};               // once loaded, the value if `role` is an environment variable that is set
  Located<std::string> anonymous_role;  // PostgreSQL only
  std::vector<Named<SettingOptions>> settings;  // PostgreSQL only
  Located<bool> untrusted = {false};            // SQLite only
  Position position;
  std::string folder;  // the configuration file's folder, where relative paths in a PostgreSQL URL start

  [[nodiscard]] bool is_sqlite() const { return url.value.starts_with("sqlite:"); }
  [[nodiscard]] Dialect dialect() const { return is_sqlite() ? Dialect::sqlite : Dialect::postgres; }

  static std::string check_url(std::string_view text) {
    for (std::string_view scheme : {"sqlite:", "postgres://", "postgresql://"}) {
      // Messages and logs show file names, so a URL with a password must not pass as a file name.
      const bool is_url = scheme == "sqlite:" && text.contains("//") && text.contains('@');
      if (text.starts_with(scheme) && text.size() > scheme.size() && !is_url) return {};
    }
    return "must be \"sqlite:FILE\" or \"postgres://user:password@host:port/name\"";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("url", &DatabaseOptions::url,
            "`sqlite:FILE`, or `postgres://user:password@host:port/name` with "
            "`?sslmode=verify-full&sslrootcert=FILE` and libpq's other parameters for TLS. Relative paths start at "
            "the folder of the configuration file.",
            {.required = true, .check = check_url});
    v.field("pool", &DatabaseOptions::pool, "The most connections that each core opens.", {.min = 1, .max = 1000});
    v.field("wait", &DatabaseOptions::wait,
            "How long a request waits for a free connection before it is answered 503 with Retry-After. At most 1024 "
            "requests wait on each core; further ones are answered 503 at once.",
            {.min = 0s, .max = 1h});
    v.field("statement_timeout", &DatabaseOptions::statement_timeout,
            "How long a statement may run. After that it is cancelled and the request is answered 504. An endpoint's "
            "`timeout` takes precedence.",
            {.min = 1ms, .max = 24h});
    v.field("row_limit", &DatabaseOptions::row_limit,
            "The longest row of an answer. A longer row ends the answer: with 500, or, if rows have already been "
            "sent, by cutting it off. SQLite: this is also the longest text or BLOB, stored or computed. A statement "
            "that meets a longer one is answered 400, or 422 if the statement writes. No timeout interrupts a single "
            "call of an SQL function, and some functions run for minutes on texts of this length: see \"What a "
            "timeout does not end\" in operating.md.",
            {.min = 256_KiB, .max = 900_MiB});
    v.field("statements", &DatabaseOptions::statements,
            "The most statements of lists ([endpoint.list]) that a connection keeps prepared: one for each combination "
            "of conditions, order and fields. The cores share them evenly; the least recently used one is replaced.",
            {.min = 8, .max = 65'536});
    v.field("start_timeout", &DatabaseOptions::start_timeout,
            "PostgreSQL: how long `sluice serve` waits at start-up for a database that cannot be reached, before it "
            "exits with status 1. `sluice check` does not wait. A reload waits this long, but at least 1s and at "
            "most 25s, for each answer of the database about a statement or a table.",
            {.min = 0s, .max = 24h});
    v.field("prepared", &DatabaseOptions::prepared,
            "PostgreSQL: whether connections keep prepared statements. Use `false` with PgBouncer in transaction "
            "mode. Sessions are then not read-only either, so a function in a `get` can write.");
    v.field("pipeline", &DatabaseOptions::pipeline,
            "PostgreSQL: how many requests may be sent on one connection before their answers arrive. `1` sends one "
            "at a time.",
            {.min = 1, .max = 10'000});
    v.field("batch", &DatabaseOptions::batch,
            "PostgreSQL: how many look-ups that arrive at the same moment may share one transaction. For short "
            "look-ups, sharing saves the database server a third of its work. `1`: each look-up has its own "
            "transaction. Keep `1` if statements change their transaction, as `set_config(..., true)` does.",
            {.min = 1, .max = 64});
    v.field("role", &DatabaseOptions::role,
            "PostgreSQL: where each request's role comes from, so that grants and row-level security decide: "
            "`claim.NAME` of the verified JWT, `header.NAME` or `env.NAME`. Every statement then runs in a "
            "transaction of its own with that role, and `current_setting()` gives it `request.jwt.claims`, "
            "`request.method`, `request.path`, `request.client_address` and `request.id`. A role that the login may "
            "not take is answered 403.");
    v.field("anonymous_role", &DatabaseOptions::anonymous_role,
            "PostgreSQL: the role of requests for which `role` gives no value. Without `role` it is the role of all "
            "requests. Without `anonymous_role`, requests that have no role are answered 403.");
    v.field("settings", &DatabaseOptions::settings,
            "PostgreSQL: parameters that are set for each request's transaction, with or without `role`. The name is "
            "a parameter of PostgreSQL, as in `TimeZone = \"header.time-zone\"`, or a name of your own with a dot in "
            "it, which statements read with `current_setting()`. A parameter of your own is empty if the request has "
            "no value for it. `request.jwt.claims` and the other `request.` parameters listed for `role` are set too.");
    v.field("untrusted", &DatabaseOptions::untrusted,
            "SQLite: whether the file comes from an untrusted source (`PRAGMA trusted_schema = 0`). Its views, "
            "triggers, CHECKs, defaults and generated columns may then use only what SQLite calls innocuous, which "
            "excludes JSON functions and virtual tables such as FTS5's. A statement that needs more is refused.");
    v.position(&DatabaseOptions::position);
  }
};

}  // namespace sluice::sql
