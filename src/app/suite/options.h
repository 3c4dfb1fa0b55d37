#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/document.h"
#include "base/declare.h"

// A file of tests as it is written: docs/formats/sluicetest.md.
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
    v.field("value", &PartOptions::value, "A field's value.");
    v.field("file", &PartOptions::file, "In its place: a file that is sent.");
    v.field("type", &PartOptions::type, "The part's Content-Type. Of a file it comes from its name otherwise.");
    v.field("filename", &PartOptions::filename, "What the file is called; without it: as it is.");
    v.position(&PartOptions::position);
    v.shorthand("value");
  }
};

// [[step]]: a request or a statement, and what is expected of it.
struct StepOptions {
  Located<std::string> name;
  std::optional<Located<DatabaseKind>> only;
  std::optional<Duration> timeout;

  std::optional<Located<std::string>> request;
  Texts headers;
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
    v.field("name", &StepOptions::name, "What the step shows. Without it: the request, or the statement.");
    v.field("only", &StepOptions::only, "The step is for this kind of database alone, and skipped on the other.");
    v.field("timeout", &StepOptions::timeout, "How long the step may take; without it the file's `timeout`.",
            {.min = 1ms, .max = 1h});
    v.field("request", &StepOptions::request, "A method and a path, with its query: `GET /films?q=a`.");
    v.field("headers", &StepOptions::headers,
            "Fields of the request, beside the file's `headers`. An empty one is not sent.");
    v.field("json", &StepOptions::json, "The body, sent as `application/json`.");
    v.field("body", &StepOptions::body, "The body as it is. Say in `headers` what its Content-Type is.");
    v.field("body_file", &StepOptions::body_file,
            "A file that is the body. Its Content-Type comes from its name, unless `headers` say it.");
    v.field(
        "form", &StepOptions::form,
        "The body as multipart/form-data, by names of parts: `title = \"Ada\"`, `picture = { file = \"ada.png\" }`.");
    v.field("sql", &StepOptions::sql,
            "A statement that is run, in place of a request. `:name` is bound to the variable of that name.");
    v.field("database", &StepOptions::database,
            "The database of `sql`, by its name in the configuration. Where there is only one, it is the default.");
    v.field("status", &StepOptions::status, "The answer's status. Without it: any from 200 to 299.",
            {.min = 100, .max = 599});
    v.field("sqlstate", &StepOptions::sqlstate, "The statement must fail with this SQLSTATE, such as `23505`.");
    v.field("expect_headers", &StepOptions::expect_headers, "What fields of the answer must be.");
    v.field("expect", &StepOptions::expect,
            "What the body, or the statement's rows, must hold: an object may have further members, a list has exactly "
            "these items.");
    v.field("exact", &StepOptions::exact, "What the body, or the statement's rows, must be, and nothing else.");
    v.field(
        "table", &StepOptions::table,
        "The rows that the body, or the statement, must have: a line of column names, then a line of JSON values for "
        "each row. Other columns do not count.");
    v.field("text", &StepOptions::text, "What the body must be as text.");
    v.field("expect_file", &StepOptions::expect_file, "A file that the body must be, byte for byte.");
    v.field("unordered", &StepOptions::unordered, "The rows of `expect`, `exact` or `table` may come in any order.");
    v.field("set", &StepOptions::set,
            "Variables for the steps below: `body.id`, `body.0.name`, `header.Location`, `status`, `rows.0.n`.");
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
    v.field("config", &Options::config, "The configuration that is tested, from the folder of this file.",
            {.required = true});
    v.field("runs_on", &Options::runs_on, "The kinds of databases that the file is for.", {.min = 1, .max = 2});
    v.field("database", &Options::databases, "The configuration's database of that name: a new one for each run.");
    v.field("environment", &Options::environment, "Environment variables of the server.");
    v.field("variables", &Options::variables, "Variables by name, for `${name}` in the strings below.");
    v.field("headers", &Options::headers, "Fields of every request.");
    v.field("timeout", &Options::timeout, "How long a step may take.", {.min = 1ms, .max = 1h});
    v.field("step", &Options::steps, "One after the other, in the order of the file.", {.required = true});
  }
};

}  // namespace sluice::app::suite
