#include "app/routes/endpoint/check_endpoint.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "api/error_map.h"
#include "api/source.h"
#include "api/write_endpoint.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "sql/parallel.h"
#include "sql/parameters.h"

namespace sluice::app::config {

const sql::DatabaseOptions* database_of(const Options& options, std::string_view name) {
  const auto found =
      std::ranges::find(options.databases, name, [](const auto& one) -> std::string_view { return one.name.value; });
  return found == options.databases.end() ? nullptr : &found->value;
}

void check_parallel(const Options& options, const api::EndpointOptions& endpoint, const http::Pattern& pattern,
                    const Complain& complain) {
  const Position position = endpoint.parallel->position;
  if (endpoint.get.value.empty()) complain(position, "\"parallel\" is for \"get\", which is not there");
  if (endpoint.returns != api::Returns::rows) {
    complain(position, "\"parallel\" is for many rows, as returns = \"rows\" answers them");
  }
  if (const auto* database = database_of(options, endpoint.database.value)) {
    if (database->is_sqlite()) {
      complain(position, "\"parallel\" is for PostgreSQL: SQLite has one reader for each statement");
    } else if (endpoint.parallel->connections.value >= database->pool) {
      complain(position,
               fmt::format("[database.{}] has pool = {} connections, of which one stays free for short requests",
                           endpoint.database.value, database->pool));
    }
  }
  const auto refuse = [&](std::string_view name, Position where) {
    if (name != sql::range_begin_parameter && name != sql::range_end_parameter) return;
    complain(where, fmt::format(":{} is set by \"parallel\"", name));
  };
  for (const auto& parameter : endpoint.params) refuse(parameter.name.value, parameter.name.position);
  for (const std::string& name : pattern.names()) refuse(name, endpoint.path.position);
}

void check_errors(const std::vector<Named<api::ErrorOptions>>& errors, const Complain& complain) {
  for (const auto& [name, options] : errors) {
    if (const std::string wrong = api::check_error_code(name.value); !wrong.empty()) {
      complain(name.position, fmt::format("\"{}\" {}", name.value, wrong));
    }
    const auto status = static_cast<int>(options.status.value);
    if (status != 0 && options.title.empty() && http::reason_phrase(status).empty()) {
      complain(options.status.position, fmt::format("{} is not a status with a standard name", status), "add a title");
    }
    if (status == 401) complain(options.status.position, "401 asks for credentials; only a policy answers with it");
    if (options.show_message && !options.detail.value.empty()) {
      complain(options.detail.position, "\"detail\" is either this or, with \"show_message\", the database's message");
    }
    const std::string& type = options.type.value;
    if (std::ranges::any_of(type, [](char c) { return c <= ' ' || c > '~' || c == '"' || c == '<' || c == '>'; })) {
      complain(options.type.position, "a type is a URI, of printable ASCII without spaces");
    }
  }
}

void check_limits_of_bodies(const Options& options, const api::EndpointOptions& endpoint, const Complain& complain) {
  const auto methods = endpoint.writing_methods();
  for (const auto* limit : {&endpoint.body_limit, &endpoint.row_limit}) {
    if (*limit && methods.empty()) {
      complain((*limit)->position, "this limit is for methods that write, and the endpoint has no such method");
    }
  }
  const auto fits = [&](const std::optional<Located<ByteSize>>& row, std::uint64_t body) {
    if (row && row->value.bytes > body) {
      complain(row->position, fmt::format("no row can be that long: body_limit is {}", format_size({body})));
    }
  };
  fits(endpoint.row_limit, api::body_limit(endpoint, {}, options.server.body_limit));
  for (const auto& [method, writing] : methods) {
    fits(writing->row_limit, api::body_limit(endpoint, *writing, options.server.body_limit));
  }
}

bool answers_with_rows(const api::EndpointOptions& endpoint) {
  const auto writes_rows = [](const auto& one) { return !one.second->set.value && one.second->existing.value.empty(); };
  const bool reads_rows = !endpoint.get.value.empty() && endpoint.returns != api::Returns::file;
  const auto methods = endpoint.writing_methods();
  return reads_rows || std::ranges::any_of(methods, writes_rows);
}

void check_formats(const api::EndpointOptions& endpoint, const Complain& complain) {
  if (endpoint.formats.empty() || answers_with_rows(endpoint)) return;
  complain(endpoint.formats[0].position, "\"formats\" is for answers with rows, and this endpoint has none");
}

void check_list(const api::EndpointOptions& endpoint, const Complain& complain) {
  const Position position = endpoint.list->position;
  if (endpoint.get.value.empty()) complain(position, "\"list\" is for the rows of \"get\", which is not there");
  if (endpoint.returns != api::Returns::rows) {
    complain(position, "\"list\" is for many rows, as returns = \"rows\" answers them");
  }
  if (endpoint.parallel) complain(position, "\"list\" answers pages, and \"parallel\" is for all rows");
}

void check_version(const api::EndpointOptions& endpoint, const Complain& complain) {
  const auto methods = endpoint.writing_methods();
  if (endpoint.version.position.line == 0) {
    if (endpoint.require_match.value) {
      complain(endpoint.require_match.position, "\"require_match\" is for an endpoint with \"version\"");
    }
    return;
  }
  if (endpoint.require_match.value && methods.empty()) {
    complain(endpoint.require_match.position,
             "\"require_match\" is for methods that write, and the endpoint has no such method");
  }
  if (endpoint.version.value.empty()) {
    complain(endpoint.version.position, "\"version\" names a column of \"get\"", "\"*\" stands for all of them");
  } else if (endpoint.get.value.empty()) {
    complain(endpoint.version.position, "\"version\" names a column of \"get\", which is not there");
  } else if (endpoint.returns != api::Returns::object) {
    complain(endpoint.version.position, "\"version\" is of one row", "add returns = \"object\"");
  }
  for (const auto& [method, writing] : methods) {
    if (!writing->set.value && writing->existing.value.empty()) continue;
    complain(endpoint.version.position, "\"version\" is of one row, and a set has many",
             "give the set an endpoint of its own");
  }
}

void check_allowed(std::string_view name, const api::ParamOptions& options, std::optional<sql::ParameterType> declared,
                   const Complain& complain) {
  using sql::ParameterType;
  const auto type = sql::element_of(declared.value_or(ParameterType::text));
  const auto& bound = options.min ? options.min : options.max;
  if (bound && !options.values.empty()) {
    complain(bound->position, "\"values\" lists all possible values, so they have no \"min\" or \"max\"");
  }
  if (options.min && options.max && options.min->value > options.max->value) {
    complain(options.min->position, "\"min\" is above \"max\"");
  }
  if (bound && declared && type != ParameterType::integer && type != ParameterType::real) {
    complain(bound->position, fmt::format("\"min\" and \"max\" are for numbers, and the type of \"{}\" is {}", name,
                                          name_of_value(*declared)));
  }
  for (auto one = options.values.begin(); one != options.values.end(); ++one) {
    const auto same = [&](const auto& other) {
      return other.value.text == one->value.text ||
             api::canonical(type, other.value.text) == api::canonical(type, one->value.text);
    };
    if (!sql::fits(type, one->value.text)) {
      complain(one->position, fmt::format("this does not fit the type of \"{}\"", name));
    } else if (std::any_of(options.values.begin(), one, same)) {
      complain(one->position, fmt::format("\"{}\" has this value already", name));
    }
  }
}

void check_hash(std::string_view name, const api::ParamOptions& options, const Complain& complain) {
  if (!options.hash) {
    const auto needs_hash = [&](Position position, std::string_view key) {
      complain(position, fmt::format("\"{}\" is for a password, and \"{}\" has no \"hash\"", key, name),
               "add hash = \"argon2id\"");
    };
    if (options.min_length) needs_hash(options.min_length->position, "min_length");
    if (options.common) needs_hash(options.common->position, "common");
    return;
  }
  const auto excludes = [&](bool is_set, Position position, std::string_view key, std::string_view hint = {}) {
    if (is_set) complain(position, fmt::format("a password has no \"{}\"", key), std::string(hint));
  };
  const Position hash = options.hash->position;
  excludes(!options.values.empty(), options.values.empty() ? hash : options.values[0].position, "values");
  excludes(options.min.has_value(), options.min ? options.min->position : hash, "min", "min_length counts characters");
  excludes(options.max.has_value(), options.max ? options.max->position : hash, "max");
  excludes(options.default_value.has_value(), options.default_value ? options.default_value->position : hash,
           "default");
  excludes(options.store.position.line != 0, options.store.position, "store");
  excludes(options.ignored.value, options.ignored.position, "ignored");
  excludes(options.trim, hash, "trim", "blanks at its ends are part of a password");
  if (options.type && options.type->value != sql::ParameterType::text) {
    complain(options.type->position,
             fmt::format("a password is text, and the type of \"{}\" is {}", name, name_of_value(options.type->value)));
  }
  if (!options.from) return;
  const auto source = api::parse_source(options.from->value);
  if (source && (source->from != api::From::body || source->key.empty())) {
    complain(options.from->position, "a password comes from a field of the body", "write from = \"body.NAME\"");
  }
}

bool check_changes(const Options& options, const api::EndpointOptions& endpoint, const Complain& complain) {
  const api::changes::Options& changes = *endpoint.changes;
  const bool notify = !changes.notify.value.empty();
  const bool tables = !changes.tables.empty();
  if (!notify && !tables) {
    if (!complain.errors.empty()) return false;  // a wrong value of one of the two keys may be the reason
    complain(changes.position, "\"changes\" has no source of events",
             "add notify = \"CHANNEL\" (PostgreSQL) or tables = [\"NAME\"] (SQLite)");
    return false;
  }
  const auto* const database = database_of(options, endpoint.database.value);
  if (database == nullptr) return false;  // already reported
  // If both are given, the kind of the database decides which one is used.
  if (database->is_sqlite() && !tables) {
    complain(changes.notify.position, "\"notify\" is for PostgreSQL, and this database is SQLite",
             "add tables = [\"NAME\"]");
  } else if (!database->is_sqlite() && !notify) {
    complain(changes.tables[0].position, "\"tables\" is for SQLite, and this database is PostgreSQL",
             "add notify = \"CHANNEL\"");
  } else if (!database->is_sqlite() && !database->prepared.value) {
    complain(changes.notify.position,
             "LISTEN needs a session of its own, but \"prepared = false\" is for a pooler, which shares sessions");
  } else if (database->is_sqlite() && std::ranges::none_of(options.endpoints, [&](const api::EndpointOptions& other) {
               const bool same = other.database.value == endpoint.database.value ||
                                 (other.database.value.empty() && options.databases.size() == 1);
               return same && !other.writing_methods().empty();
             })) {
    complain(changes.tables[0].position, "no endpoint writes to this database, so there are no changes",
             "commits of other programs are not noticed");
  }
  return true;
}

void check_writing(const Options& options, const api::EndpointOptions& endpoint, http::Method method,
                   const api::MethodOptions& writing, const Complain& complain) {
  const bool has_table = !writing.table.value.empty();
  if (writing.sql.value.empty() && !has_table) {
    complain(writing.position, "this method has no statement", "add sql = \"...\", or table = \"...\" and its columns");
  }
  if (!writing.sql.value.empty() && has_table) {
    complain(writing.table.position, "a method has either \"sql\" or \"table\"");
  }
  if (has_table && writing.columns.empty()) {
    complain(writing.table.position, "\"table\" needs \"columns\"", "add columns.NAME = {}");
  }
  const auto needs_table = [&](bool is_set, Position position, std::string_view key) {
    if (is_set && !has_table) complain(position, fmt::format("\"{}\" is for a method with \"table\"", key));
  };
  needs_table(!writing.columns.empty(), writing.columns.empty() ? Position{} : writing.columns[0].name.position,
              "columns");
  needs_table(!writing.existing.value.empty(), writing.existing.position, "existing");
  needs_table(writing.set.value, writing.set.position, "set");
  needs_table(!writing.returning.value.empty(), writing.returning.position, "returning");
  const bool of_set = method == http::Method::put || (method == http::Method::patch && writing.set.value);
  if (!writing.existing.value.empty() && !of_set) {
    complain(writing.existing.position,
             "\"existing\" is for PUT, which replaces what it selects, and for PATCH with set = true");
  }
  if (writing.set.value && method != http::Method::patch) {
    complain(writing.set.position, "\"set\" is for PATCH; a PUT of a set has \"existing\"");
  }
  const bool is_set = writing.is_set();
  const bool replaces = method == http::Method::put && is_set;
  if (writing.delete_.position.line != 0 && !replaces) {
    complain(writing.delete_.position,
             method == http::Method::patch && is_set
                 ? "a PATCH of a set deletes nothing, so it has no \"delete\""
                 : "\"delete\" here is the statement of a set, a PUT that has \"existing\"",
             "an HTTP DELETE is declared as [endpoint.delete], or as \"delete\" of [[endpoint]]");
  }
  for (const auto& [key, statement] : writing.row_statements()) {
    if (statement->position.line == 0) continue;
    if (statement->value.empty()) complain(statement->position, fmt::format("\"{}\" is an empty statement", key));
    if (is_set || statement == &writing.delete_) continue;
    complain(statement->position,
             fmt::format("\"{}\" is a statement of a set: a PUT with \"existing\", or a PATCH with set = true", key));
  }
  constexpr std::string_view of_put = "\"{}\" is for a PUT of a set, which has \"existing\"";
  if (writing.accepts_object.value && !replaces) {
    complain(writing.accepts_object.position, fmt::format(of_put, "accepts_object"));
  }
  if (writing.max_deleted && !replaces) {
    complain(writing.max_deleted->position, fmt::format(of_put, "max_deleted"));
  }
  if (writing.returns && is_set) complain(writing.returns->position, "a set answers with counts, not with rows");
  if (writing.creates && is_set) complain(writing.creates->position, "a set answers with counts, and never with 201");
  if (writing.rows && is_set) complain(writing.rows->position, "a set is written as a whole: \"body_limit\" bounds it");
  if (writing.creates && writing.creates->value && method == http::Method::delete_) {
    complain(writing.creates->position, "DELETE creates nothing");
  }
  if (writing.returns && writing.returns->value == api::Returns::file) {
    complain(writing.returns->position, "only GET answers with a file");
  }
  if (is_set && !writing.returning.value.empty()) {
    complain(writing.returning.position, "a set answers with counts, not with rows");
  }
  if (is_set && !writing.before.empty()) complain(writing.before[0].position, "a set has no other statements");
  if (is_set && !writing.location.value.empty()) complain(writing.location.position, "a set has no Location");
  if (!is_set && !writing.location.value.empty() && !api::creates(method, writing)) {
    complain(writing.location.position, "this method creates nothing, so its answer has no Location",
             "a POST creates with \"table\" or INSERT, a PUT with \"table\"");
  }
  for (const auto& [name, column] : writing.columns) {
    const bool unwritten = column.ignored.value && !column.from;
    if (!column.from && name.value.contains('.')) {
      complain(name.position, fmt::format("\"{}\" would be a field within an object of the body", name.value),
               "say which field it is: from = \"body.NAME\"");
    }
    if (has_table && method == http::Method::delete_ && !unwritten && !column.key) {
      complain(name.position, fmt::format("\"{}\" is not a key, and a DELETE takes keys only", name.value),
               "add key = true");
    }
    if (!unwritten) continue;
    if (column.key || column.required.value || column.default_value || column.type || !column.values.empty() ||
        column.min || column.max || column.hash) {
      complain(column.ignored.position,
               fmt::format("the column \"{}\" is ignored, so it has no other keys", name.value),
               "without \"from\" it is not written");
    }
  }
  if (writing.retries.position.line == 0 || writing.retries.value == 0) return;
  const auto* database = database_of(options, endpoint.database.value);
  if (database != nullptr && database->is_sqlite()) {
    complain(writing.retries.position, "\"retries\" is for PostgreSQL: SQLite has one writer at a time; others wait");
  }
}

}  // namespace sluice::app::config
