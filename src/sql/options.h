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
  Located<std::string> from;                 // what it may be is the api's matter
  std::optional<std::string> environment{};  // once loaded, the variable's value, where `from` is one that is set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("from", &SettingOptions::from,
            "Where the value comes from: `claim.NAME` of the verified JWT, `header.NAME`, `cookie.NAME`, `env.NAME`.",
            {.required = true});
    v.shorthand("from");
  }
};

// [database.NAME]. Everything is counted per core.
struct DatabaseOptions {
  Located<std::string> url;
  std::uint32_t pool = 8;
  Duration wait = 2s;
  Duration statement_timeout = 30s;
  ByteSize row_limit = 64_MiB;
  Located<Duration> start_timeout = {10s};        // PostgreSQL only
  Located<bool> prepared = true;                  // PostgreSQL only
  Located<std::uint32_t> pipeline = {128};        // PostgreSQL only
  Located<std::uint32_t> batch = {1};             // PostgreSQL only
  std::optional<Located<std::string>> role;       // PostgreSQL only; where it comes from is the api's matter
  std::optional<std::string> role_environment{};  // once loaded, the variable's value, where `role` is one that is set
  Located<std::string> anonymous_role;            // PostgreSQL only
  std::vector<Named<SettingOptions>> settings;    // PostgreSQL only
  Located<bool> untrusted = {false};              // SQLite only
  Position position;
  std::string folder;  // of the configuration file: where relative paths in a URL of PostgreSQL begin

  [[nodiscard]] bool is_sqlite() const { return url.value.starts_with("sqlite:"); }
  [[nodiscard]] Dialect dialect() const { return is_sqlite() ? Dialect::sqlite : Dialect::postgres; }

  static std::string check_url(std::string_view text) {
    for (std::string_view scheme : {"sqlite:", "postgres://", "postgresql://"}) {
      // The name of a file appears in messages and logs: a URL with a password must not be taken for one.
      const bool is_url = scheme == "sqlite:" && text.contains("//") && text.contains('@');
      if (text.starts_with(scheme) && text.size() > scheme.size() && !is_url) return {};
    }
    return "must be \"sqlite:FILE\" or \"postgres://user:password@host:port/name\"";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field(
        "url", &DatabaseOptions::url,
        "`sqlite:FILE`, or `postgres://user:password@host:port/name` with `?sslmode=verify-full&sslrootcert=FILE` and "
        "libpq's other parameters for TLS. Files are from the folder of the configuration file.",
        {.required = true, .check = check_url});
    v.field("pool", &DatabaseOptions::pool, "Connections that each core may open.", {.min = 1, .max = 1000});
    v.field("wait", &DatabaseOptions::wait,
            "How long a request waits for a free connection before it is answered 503 with Retry-After. At most 1024 "
            "of each "
            "core wait; more are answered at once.",
            {.min = 0s, .max = 1h});
    v.field("statement_timeout", &DatabaseOptions::statement_timeout,
            "How long a statement may run before it is cancelled and answered 504; an endpoint's `timeout` goes first.",
            {.min = 1ms, .max = 24h});
    v.field(
        "row_limit", &DatabaseOptions::row_limit,
        "The longest row of an answer. One that is longer ends the answer: with 500, or by cutting it where rows have "
        "been sent. SQLite: also the longest text or BLOB, stored or computed: a statement that meets a longer one is "
        "answered 400, or 422 where it writes. No timeout ends one call of a function, and some take minutes for texts "
        "that this allows: see \"What a timeout does not end\" in operating.md.",
        {.min = 256_KiB, .max = 900_MiB});
    v.field("start_timeout", &DatabaseOptions::start_timeout,
            "PostgreSQL: how long `sluice serve` waits at its start for a database that cannot be reached, before it "
            "exits with 1. `sluice check` does not wait. A reload waits as long, at least 1s and at most 25s, for each "
            "answer about "
            "a statement or a table.",
            {.min = 0s, .max = 24h});
    v.field("prepared", &DatabaseOptions::prepared,
            "PostgreSQL: keep prepared statements. `false` for PgBouncer in transaction mode: then sessions are not "
            "read-only either, and a function that writes does.");
    v.field("pipeline", &DatabaseOptions::pipeline,
            "PostgreSQL: how many requests may be on their way on one connection; `1` sends one at a time.",
            {.min = 1, .max = 10'000});
    v.field(
        "batch", &DatabaseOptions::batch,
        "PostgreSQL: how many look-ups that come at the same moment may share one transaction, which saves the server "
        "a third of its work on short ones; `1` gives each its own. Not for statements that have an effect on their "
        "transaction, such as `set_config(..., true)`.",
        {.min = 1, .max = 64});
    v.field(
        "role", &DatabaseOptions::role,
        "PostgreSQL: the role that each request takes, so that grants and row-level security decide: `claim.NAME` of "
        "the verified JWT, `header.NAME`, `env.NAME`. Every statement then runs in a transaction of its own with "
        "that role and with `request.jwt.claims`, `request.method` and `request.path` for `current_setting()`. A "
        "role that the login may not take is 403.");
    v.field("anonymous_role", &DatabaseOptions::anonymous_role,
            "PostgreSQL: the role of requests for which `role` finds none; without `role`, of all. Without it they are "
            "answered 403.");
    v.field("settings", &DatabaseOptions::settings,
            "PostgreSQL: what each request sets for its transaction, with or without `role`: `TimeZone = "
            "\"header.time-zone\"`, or a name with a dot of your own for `current_setting()`, which is empty where the "
            "request has no value. `request.jwt.claims` and its like are set too.");
    v.field("untrusted", &DatabaseOptions::untrusted,
            "SQLite: the file comes from somebody else (`PRAGMA trusted_schema = 0`). Its views, triggers, CHECKs, "
            "defaults and generated columns then use only what SQLite calls innocuous: neither JSON functions nor "
            "virtual tables such as FTS5's. A statement that needs more is refused.");
    v.position(&DatabaseOptions::position);
  }
};

}  // namespace sluice::sql
