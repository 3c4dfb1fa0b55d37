#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/document.h"
#include "base/declare.h"

// The contents of a test file: docs/formats/sluicetest.md.
namespace sluice::app::suite {

enum class DatabaseKind : std::uint8_t { sqlite, postgres };

inline NameOf<DatabaseKind> names_of(DatabaseKind) {
  return {{"sqlite", DatabaseKind::sqlite}, {"postgres", DatabaseKind::postgres}};
}

// [database.NAME]
struct DatabaseOptions {
  std::vector<Located<std::string>> schema;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field(
        "schema", &DatabaseOptions::schema,
        "Scripts that are run in the new database, in this order, before the server starts. `${database}` in a name "
        "is `sqlite` or `postgres`.");
    v.position(&DatabaseOptions::position);
  }
};

using Texts = std::vector<Named<Located<std::string>>>;
using Values = std::vector<Named<config::Value>>;

// One part of a multipart/form-data body.
struct PartOptions {
  std::optional<std::string> value;
  std::optional<Located<std::string>> file;
  std::string type;
  std::optional<std::string> filename;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("value", &PartOptions::value, "The value of a field.");
    v.field("file", &PartOptions::file, "Instead of `value`: a file that is sent.");
    v.field("type", &PartOptions::type, "The part's Content-Type. Without it, a file's type is derived from its name.");
    v.field("filename", &PartOptions::filename, "The file name that is sent. Without it, the file's own name.");
    v.position(&PartOptions::position);
    v.shorthand("value");
  }
};

// [[step]]: a request or a statement, and the expected answer.
struct StepOptions {
  Located<std::string> name;
  std::optional<Located<DatabaseKind>> only;
  std::optional<Duration> timeout;

  std::optional<Located<std::string>> request;
  Texts headers;
  std::optional<config::Value> token;
  Located<std::string> token_policy;  // once loaded, the name of a policy of type "jwt" if there is a token
  std::optional<config::Value> json;
  std::optional<Located<std::string>> body;
  std::optional<Located<std::string>> body_file;
  std::vector<Named<PartOptions>> form;

  std::optional<Located<std::string>> sql;
  Located<std::string> database;

  std::optional<Located<std::uint32_t>> status;
  std::optional<Located<std::string>> sqlstate;
  Texts expect_headers;
  std::optional<config::Value> expect;
  std::optional<config::Value> exact;
  std::optional<Located<std::string>> table;
  std::optional<Located<std::string>> text;
  std::optional<Located<std::string>> expect_file;
  Located<bool> unordered = false;
  Texts set;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("name", &StepOptions::name,
            "The name of the step in the output. Without it, the request or the statement is the name.");
    v.field("only", &StepOptions::only, "The kind of database that the step is for. On the other kind it is skipped.");
    v.field("timeout", &StepOptions::timeout, "How long the step may take. Without it, the file's `timeout` applies.",
            {.min = 1ms, .max = 1h});
    v.field("request", &StepOptions::request, "A method and a path, with its query: `GET /films?q=a`.");
    v.field("headers", &StepOptions::headers,
            "Header fields of the request, in addition to the file's `headers`. A field with an empty value is not "
            "sent.");
    v.field("token", &StepOptions::token,
            "The claims of a signed token that the request carries: `{ sub = \"1\" }`. The server accepts its "
            "signature.");
    v.field("token_policy", &StepOptions::token_policy,
            "The policy of type `jwt` that the token is for. If the configuration has only one, it is the default.");
    v.field("json", &StepOptions::json, "The body, sent as `application/json`.");
    v.field("body", &StepOptions::body, "The body, sent as it is. Set its Content-Type in `headers`.");
    v.field("body_file", &StepOptions::body_file,
            "A file that is sent as the body. Its Content-Type is derived from its name, unless `headers` set it.");
    v.field("form", &StepOptions::form,
            "The body as multipart/form-data, by name of the part: `title = \"Ada\"`, `picture = { file = "
            "\"ada.png\" }`.");
    v.field("sql", &StepOptions::sql,
            "Instead of a request: a statement that is run. `:name` is bound to the variable of that name.");
    v.field("database", &StepOptions::database,
            "The database of `sql`, by its name in the configuration. If there is only one database, it is the "
            "default.");
    v.field("status", &StepOptions::status, "The expected status. Without it, any status from 200 to 299 is accepted.",
            {.min = 100, .max = 599});
    v.field("sqlstate", &StepOptions::sqlstate, "The statement must fail with this SQLSTATE, such as `23505`.");
    v.field("expect_headers", &StepOptions::expect_headers, "The expected values of the answer's header fields.");
    v.field(
        "expect", &StepOptions::expect,
        "The content that the body, or the statement's rows, must have: an object may have further members, but a list "
        "must have exactly these items.");
    v.field("exact", &StepOptions::exact, "The value that the body, or the statement's rows, must be equal to.");
    v.field("table", &StepOptions::table,
            "The rows that the body, or the statement, must have: a line of column names, then a line of JSON values "
            "for each row. Other columns are ignored.");
    v.field("text", &StepOptions::text, "The text that the body must be equal to.");
    v.field("expect_file", &StepOptions::expect_file, "A file that the body must be equal to, byte for byte.");
    v.field("unordered", &StepOptions::unordered, "The rows of `expect`, `exact` or `table` may come in any order.");
    v.field("set", &StepOptions::set,
            "Variables that later steps can use, with where their values are: `body.id`, `body.0.name`, "
            "`header.Location`, `status`, `rows.0.n`.");
    v.position(&StepOptions::position);
  }
};

struct Options {
  Located<std::string> config;
  std::vector<Located<DatabaseKind>> runs_on = {{DatabaseKind::sqlite}, {DatabaseKind::postgres}};
  std::vector<Named<DatabaseOptions>> databases;
  Texts environment;
  Values variables;
  Texts headers;
  Duration timeout = 10s;
  std::vector<StepOptions> steps;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("config", &Options::config,
            "The configuration that is tested. A relative path starts at the folder of this file.", {.required = true});
    v.field("runs_on", &Options::runs_on, "The kinds of databases that the file runs on.", {.min = 1, .max = 2});
    v.field("database", &Options::databases,
            "The configuration's database of that name, which is created anew for each run.");
    v.field("environment", &Options::environment, "Environment variables of the server.");
    v.field("variables", &Options::variables, "Variables by name, for `${name}` in the strings below.");
    v.field("headers", &Options::headers, "Header fields of every request.");
    v.field("timeout", &Options::timeout, "How long a step may take.", {.min = 1ms, .max = 1h});
    v.field("step", &Options::steps, "The steps, which run in the order of the file.", {.required = true});
  }
};

}  // namespace sluice::app::suite
