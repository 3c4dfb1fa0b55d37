#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/changes/options.h"
#include "api/list/options.h"
#include "base/declare.h"
#include "base/host.h"
#include "http/request.h"
#include "sql/encode/format.h"
#include "sql/options.h"
#include "sql/parallel.h"
#include "sql/staging.h"
#include "sql/transaction.h"

namespace sluice::api {

// Where a value comes from.
enum class From : std::uint8_t { path, query, header, cookie, claim, environment, request, body, upload };

// Checks the text of a `from`. Returns what is wrong with it, or an empty string.
[[nodiscard]] std::string check_source(std::string_view text);

enum class Returns : std::uint8_t { rows, object, file };

inline NameOf<Returns> names_of(Returns) {
  return {{"rows", Returns::rows}, {"object", Returns::object}, {"file", Returns::file}};
}

// Parses a `max_deleted` such as "1000" or "10%". Returns nullopt if the text is neither a number nor a share.
[[nodiscard]] std::optional<sql::DeletionLimit> parse_deletion_limit(std::string_view text);
// Checks the text of a `max_deleted`. Returns what is wrong with it, or an empty string.
[[nodiscard]] std::string check_deletion_limit(std::string_view text);

// How the hash of a password is computed.
enum class PasswordHash : std::uint8_t { argon2id };

inline NameOf<PasswordHash> names_of(PasswordHash) { return {{"argon2id", PasswordHash::argon2id}}; }

// [endpoint.params.NAME]: a parameter of the endpoint's statements.
struct ParamOptions {
  std::optional<Located<std::string>> from;
  bool trim = false;
  std::optional<Located<sql::ParameterType>> type;  // nullopt if the database's own type decides
  std::optional<Located<Scalar>> default_value;
  std::vector<Located<Scalar>> values;  // empty: any
  std::optional<Located<double>> min;
  std::optional<Located<double>> max;
  std::optional<Located<PasswordHash>> hash{};
  std::optional<Located<std::uint32_t>> min_length{};
  std::optional<Located<bool>> common{};
  Located<bool> required = false;
  Located<bool> ignored = false;
  Located<std::string> store;                // once loaded, the name of an existing store if `from` is a file's hash
  std::optional<std::string> environment{};  // once loaded, the value if `from` is an environment variable that is set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("from", &ParamOptions::from,
            "Where the value comes from: `path.NAME`, `query.NAME`, `header.NAME`, `cookie.NAME`, `claim.NAME` (of "
            "the verified JWT; `claim.a.b` within objects), `env.NAME`, `request.id`; `body.NAME`, "
            "`body.NAME.NAME`, or `body` for the whole body; `upload.NAME`, a part of a multipart/form-data body that "
            "is stored as a file, or `upload`, the whole body stored as a file: the value is the file's SHA-256. "
            "Without `from`, the value comes from the path if that has a parameter of this name; otherwise from "
            "`query` for GET and DELETE, and from `body` for POST, PUT and PATCH.",
            {.check = check_source});
    v.field("trim", &ParamOptions::trim,
            "Whether blanks at both ends of the value are removed. With `required`, a value of blanks alone counts "
            "as missing.");
    v.field("type", &ParamOptions::type,
            "The type that the value must have. A value of another type is answered 400, or 422 if it is a field of "
            "the body. Without `type`, the database's own type decides. An empty value of a type other than `text` "
            "counts as missing, except in JSON and in claims. `bytes` are written `\\x0aff`. `int[]`, `text[]`, "
            "`real[]` and `bool[]` collect all values of the query parameter (`?id=1&id=3`). PostgreSQL gets an "
            "array, for `id = ANY(:id)`; SQLite gets a JSON array, for `id IN (SELECT value FROM json_each(:id))`.");
    v.field("default", &ParamOptions::default_value,
            "The value if the request has none. Without a default, the value is then NULL.");
    v.field("values", &ParamOptions::values,
            "The only possible values: `[\"name\", \"year\"]`. Another value is answered 400, or 422 if it is a field "
            "of the body, with a list of the possible ones. A list is checked element by element. A missing or null "
            "value is not checked: see `required`.",
            {.min = 1});
    v.field("min", &ParamOptions::min,
            "The smallest possible number. A smaller one is refused in the same way as with `values`.");
    v.field("max", &ParamOptions::max,
            "The largest possible number. A larger one is refused in the same way as with `values`.");
    v.field("hash", &ParamOptions::hash,
            "`argon2id`: the value is a password, and the statement gets its hash (`$argon2id$...`), which a policy of "
            "type `basic` accepts. The password is a text in a field of the body, of at most 1024 bytes, and the body "
            "has exactly one row. A password that is not allowed is answered 422. Each core computes one hash at a "
            "time; if too many requests wait, the answer is 503.");
    v.field("min_length", &ParamOptions::min_length,
            "With `hash`: the least number of characters of the password; default: 8.", {.min = 1, .max = 256});
    v.field("common", &ParamOptions::common,
            "With `hash`: whether common passwords are allowed, such as `password1`, `12345678` or one repeated "
            "character; default: false.");
    v.field("required", &ParamOptions::required,
            "Whether a request without the parameter is refused: with 400, or with 422 if the parameter is a field "
            "of the body.");
    v.field("ignored", &ParamOptions::ignored,
            "`true`: a body may have a field of this name, but its value is not used. So a client can send back an "
            "answer of GET as it is.");
    v.field("store", &ParamOptions::store,
            "The [store.NAME] that an `upload` is stored in. If there is only one store, it is the default.");
    v.shorthand("type");
  }
};

// Whether query parameters that the endpoint does not use are refused.
enum class QueryParameters : std::uint8_t { known, any };

inline NameOf<QueryParameters> names_of(QueryParameters) {
  return {{"known", QueryParameters::known}, {"any", QueryParameters::any}};
}

// [endpoint.post.columns.NAME]: a column of the table that a method writes.
struct ColumnOptions : ParamOptions {
  bool key = false;

  template <class T>
  static constexpr T ColumnOptions::* own(T ParamOptions::* member) {
    return member;
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("key", &ColumnOptions::key,
            "Whether the column is part of the key. The key columns together identify a row.");
    v.field("from", own(&ParamOptions::from),
            "Where the value comes from, as for [endpoint.params]. Without `from`, it comes from the body's field of "
            "the column's name. A key of PATCH, PUT or DELETE needs `from` if the path has a parameter of that name.",
            {.check = check_source});
    v.field("required", own(&ParamOptions::required), "Whether a row is refused if its value is missing or null.");
    v.field("default", own(&ParamOptions::default_value), "The value if the request has none.");
    v.field("values", own(&ParamOptions::values), "The only possible values, as for [endpoint.params].", {.min = 1});
    v.field("min", own(&ParamOptions::min), "The smallest possible number, as for [endpoint.params].");
    v.field("max", own(&ParamOptions::max), "The largest possible number, as for [endpoint.params].");
    v.field("hash", own(&ParamOptions::hash), "`argon2id`: the value is a password, as for [endpoint.params].");
    v.field("min_length", own(&ParamOptions::min_length),
            "The least number of characters of a password, as for [endpoint.params].", {.min = 1, .max = 256});
    v.field("common", own(&ParamOptions::common), "Whether common passwords are allowed, as for [endpoint.params].");
    v.field("trim", own(&ParamOptions::trim), "As for [endpoint.params].");
    v.field("type", own(&ParamOptions::type),
            "The type that the value must have. Without it, the database's own type decides.");
    v.field("ignored", own(&ParamOptions::ignored),
            "`true`: a body may have a field of this name, but its value is not used. So a client can send back an "
            "answer of GET as it is. Without `from`, the column is not written. Columns whose values the database "
            "generates are ignored even if they are not listed.");
    v.field("store", own(&ParamOptions::store), "The store that an `upload` is stored in, as for [endpoint.params].");
  }
};

// [[endpoint.require]]: what must be true of a request before it is executed.
struct RequireOptions {
  Located<std::string> that;
  Located<std::uint32_t> status = {403};
  std::string detail;
  std::map<std::string, std::string> environment{};  // once loaded, the environment variables in `that` that are set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("that", &RequireOptions::that,
            "An expression: `eq(claim.role, 'admin')`, `ne`, `in(x, 'a', 'b')`, `contains(claim.roles, 'admin')`, "
            "`present(x)`, `and`, `or`, `not`, `exists(SELECT ... WHERE member = claim.sub)`. A value is a source as "
            "in `from`, a text or a number.",
            {.required = true});
    v.field("status", &RequireOptions::status,
            "The status of the answer if the expression is not true. Without it, 403; or 401, with the policy's "
            "`WWW-Authenticate`, if the expression uses claims and the request has passed without credentials.",
            {.min = 400, .max = 499});
    v.field("detail", &RequireOptions::detail, "The `detail` of that answer.");
    v.shorthand("that");
  }
};

// [errors.CODE] and [endpoint.errors.CODE]: the answer to an error of the database.
struct ErrorOptions {
  Located<std::uint32_t> status;
  Located<std::string> type;
  std::string title;
  Located<std::string> detail;
  bool show_message = false;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("status", &ErrorOptions::status, "The status of the answer.", {.min = 400, .max = 599, .required = true});
    v.field("type", &ErrorOptions::type, "The problem's `type`, a URI. Without it, `about:blank`.");
    v.field("title", &ErrorOptions::title, "The problem's `title`. Without it, the standard phrase of the status.");
    v.field("detail", &ErrorOptions::detail,
            "The problem's `detail`. Without it, the detail stays what it is without this entry.");
    v.field("show_message", &ErrorOptions::show_message,
            "`true`: the `detail` is the database's own message, such as that of RAISE EXCEPTION. The message may "
            "name tables, columns and values, so use this for errors that functions and triggers raise for clients.");
    v.position(&ErrorOptions::position);
    v.shorthand("status");
  }
};

// [endpoint.post], [endpoint.put], [endpoint.patch] and [endpoint.delete]: what a method that writes does.
struct MethodOptions {
  Located<std::string> sql;
  bool one_row = false;  // once loaded: whether a body must have exactly one row whatever the statement returns
  Located<std::string> table;
  std::vector<Named<ColumnOptions>> columns;
  Located<std::string> existing;
  Located<std::string> delete_;
  Located<std::string> insert;
  Located<std::string> update;
  Located<bool> set = false;
  Located<bool> accepts_object = false;
  std::optional<Located<Scalar>> max_deleted;
  std::optional<Located<Returns>> returns;
  std::optional<Located<bool>> creates;
  Located<std::string> returning;
  std::vector<Located<std::string>> before;
  Located<std::string> location;
  sql::Isolation isolation = sql::Isolation::standard;
  Located<std::uint32_t> retries = 3;
  std::string summary;
  std::string description;
  std::vector<Located<std::string>> use;  // once loaded, with those that it inherits
  Located<bool> is_public;
  OneOrMore<RequireOptions> require;
  std::optional<Located<JsonOrFile>> schema;
  std::optional<Located<ByteSize>> body_limit;
  std::optional<Located<ByteSize>> row_limit;
  std::optional<Located<std::uint32_t>> rows;
  Position position;

  [[nodiscard]] bool is_set() const { return set.value || !existing.value.empty(); }
  // The statements that run for single rows of a set, by their keys; empty if absent.
  [[nodiscard]] std::array<std::pair<const char*, const Located<std::string>*>, 3> row_statements() const {
    return {{{"delete", &delete_}, {"insert", &insert}, {"update", &update}}};
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("sql", &MethodOptions::sql,
            "The statement that answers the method. It may write. `:name` is bound as a parameter; values are never "
            "put into the SQL text. The rows that it returns, for example with RETURNING, are the answer. If the "
            "body has several rows, the statement runs once for each row, all in one transaction.");
    v.field("table", &MethodOptions::table,
            "Instead of `sql`: the table whose `columns` the method writes. POST inserts rows, PATCH updates them, "
            "PUT inserts or replaces them, DELETE deletes them. Rows are identified by the columns with `key = true`.");
    v.field("columns", &MethodOptions::columns,
            "The columns of the table that the method writes. A field of the body that belongs to no column is "
            "refused.");
    v.field("existing", &MethodOptions::existing,
            "A PUT with this key writes a set: its body replaces the rows that this statement selects. The statement "
            "returns their keys. Selected rows that the body lacks are deleted, and rows that are already equal are "
            "left alone. The answer gives the counts. A row of the table that the statement does not select is never "
            "changed: a body with its key is refused. For a PATCH of a set, the statement selects the only rows that "
            "may be changed; without it, every row of the table may be changed.");
    v.field("delete", &MethodOptions::delete_,
            "For a PUT of a set: your own statement, which runs once for each row that would be deleted, such as an "
            "UPDATE that marks the row as deleted. `:name` is the row's value of one of the `columns`, or else a "
            "parameter of the path or of [endpoint.params].");
    v.field("insert", &MethodOptions::insert,
            "For a set: your own statement, which runs once for each row that would be inserted, with parameters as "
            "for `delete`. A row of the body whose key is in the table but not in `existing` is passed to it too, "
            "instead of being refused.");
    v.field("update", &MethodOptions::update,
            "For a set: your own statement, which runs once for each row that would be updated, with the new values. "
            "Its parameters are as for `delete`.");
    v.field("set", &MethodOptions::set,
            "`true`: a PATCH writes a set. It inserts the rows of the body, or updates those that exist, and deletes "
            "nothing. The answer gives the counts.");
    v.field("accepts_object", &MethodOptions::accepts_object,
            "For a PUT of a set: whether the body may be one object, or a form, which is then the whole set. "
            "`false`: such a body is answered 400.");
    v.field("max_deleted", &MethodOptions::max_deleted,
            "For a PUT of a set: the most rows that one request may delete, as a number or as a share of the rows "
            "that `existing` selects, such as `\"10%\"`. A request that would delete more is answered 409 and writes "
            "nothing, unless its query parameter `max-deleted` permits it.",
            {.check = check_deletion_limit});
    v.field(
        "returns", &MethodOptions::returns,
        "The form of this method's answers, if it differs from the endpoint's `returns`: `rows` is a list, `object` is "
        "one object.");
    v.field("creates", &MethodOptions::creates,
            "Whether the method creates rows. If it does, it is answered 201, with Location if `location` is set. "
            "Without this key, a POST with `table` or INSERT and a PUT with `table` create rows. Set it if the "
            "statement calls a function that creates, or is `WITH ... INSERT`.");
    v.field("returning", &MethodOptions::returning,
            "The columns of the written row that the answer consists of, as in SQL's RETURNING: `id, slug`.");
    v.field("before", &MethodOptions::before,
            "Statements that run before the method's own, in the same transaction, once per request. Methods that "
            "write a set cannot have any.");
    v.field("location", &MethodOptions::location,
            "The Location of the created row: a path in which `{name}` stands for a column that the statement "
            "returns.");
    v.field("isolation", &MethodOptions::isolation,
            "The isolation level of the transaction. SQLite's transactions are always serializable.");
    v.field("retries", &MethodOptions::retries,
            "PostgreSQL: how often the transaction is retried after a conflict with another one (SQLSTATE 40001, "
            "40P01).",
            {.max = 100});
    v.field("summary", &MethodOptions::summary, "As for the endpoint, but for this method only.");
    v.field("description", &MethodOptions::description, "As for the endpoint, but for this method only.");
    v.field("use", &MethodOptions::use,
            "The names of the policies that apply to this method's requests, after those of the endpoint.");
    v.field("public", &MethodOptions::is_public,
            "`true`: the policies of the endpoint and of [defaults] do not apply to this method.");
    v.field("require", &MethodOptions::require,
            "Conditions for this method's requests, in addition to the endpoint's own `require`.");
    v.field("schema", &MethodOptions::schema,
            "A JSON Schema (draft 7) for each row of the body: a table, JSON in a string, or the path of a file. A "
            "row that does not match it is answered 422. A relative path starts at the folder of the configuration "
            "file.");
    v.field("body_limit", &MethodOptions::body_limit, "As for the endpoint, but for this method only.",
            {.max = 16_GiB});
    v.field("row_limit", &MethodOptions::row_limit, "As for the endpoint, but for this method only.",
            {.min = 64_B, .max = 1_GiB});
    v.field("rows", &MethodOptions::rows,
            "How many rows a body may have; default: 10000. Each row runs the statement, in one transaction, which "
            "other writes wait for on SQLite. A longer body is answered 413. A set has no such limit, because its rows "
            "are written together.",
            {.min = 1, .max = 10'000'000});
    v.position(&MethodOptions::position);
    v.shorthand("sql");
  }
};

// [[endpoint]] parallel: the answer of `get` is read on several connections.
struct ParallelOptions {
  Located<std::uint32_t> connections = {1};
  bool ordered = true;
  Position position;

  [[nodiscard]] sql::ParallelReading reading() const { return {.connections = connections.value, .ordered = ordered}; }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("connections", &ParallelOptions::connections,
            "The most connections that read one answer. Only free connections are used, and fewer if the table is "
            "small. It must be less than the database's `pool`.",
            {.min = 1, .max = 64});
    v.field("ordered", &ParallelOptions::ordered,
            "`true`: rows are sent in the order in which the table stores them. `false`: rows are sent as they "
            "arrive, which takes less memory and keeps all connections busy.");
    v.position(&ParallelOptions::position);
    v.shorthand("connections");
  }
};

// [[endpoint]]
struct EndpointOptions {
  Located<std::string> path;
  Located<std::string> host;
  Located<std::string> database;  // once loaded, the name of an existing database
  Returns returns = Returns::rows;
  std::vector<Located<sql::Format>> formats;  // empty for all
  std::string summary;
  std::string description;
  Located<std::string> store;  // once loaded, the name of an existing store if `returns` is a file
  Located<std::string> get;
  std::optional<ParallelOptions> parallel;
  std::optional<list::Options> list;
  std::optional<MethodOptions> post;
  std::optional<MethodOptions> put;
  std::optional<MethodOptions> patch;
  std::optional<MethodOptions> delete_;
  std::vector<Named<ParamOptions>> params;
  QueryParameters query = QueryParameters::known;
  std::optional<Duration> timeout;  // nullopt for the database's statement_timeout
  std::optional<Located<std::string>> cache_control;
  Located<std::string> version;
  Located<bool> require_match = false;
  std::vector<Named<ErrorOptions>> errors;
  std::optional<Located<ByteSize>> body_limit;
  std::optional<Located<ByteSize>> row_limit;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  OneOrMore<RequireOptions> require;
  std::optional<changes::Options> changes;
  Position position;

  [[nodiscard]] sql::FormatSet offered_formats() const {
    const std::vector<sql::Format> all(formats.begin(), formats.end());
    return sql::FormatSet(all);
  }
  [[nodiscard]] auto writing_methods() const { return methods_of<const MethodOptions>(*this); }
  [[nodiscard]] auto writing_methods() { return methods_of<MethodOptions>(*this); }
  template <class Options>
  static std::vector<std::pair<http::Method, Options*>> methods_of(auto& endpoint) {
    std::vector<std::pair<http::Method, Options*>> methods;
    if (endpoint.post) methods.emplace_back(http::Method::post, &*endpoint.post);
    if (endpoint.put) methods.emplace_back(http::Method::put, &*endpoint.put);
    if (endpoint.patch) methods.emplace_back(http::Method::patch, &*endpoint.patch);
    if (endpoint.delete_) methods.emplace_back(http::Method::delete_, &*endpoint.delete_);
    return methods;
  }
  // The names of the policies of a method's requests.
  [[nodiscard]] const std::vector<Located<std::string>>& use_of(http::Method method) const {
    for (const auto& [its, writing] : writing_methods()) {
      if (its == method) return writing->use;
    }
    return use;
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &EndpointOptions::path,
            "The path of the resource. `{name}` matches one segment, `{name:int}` a number, and `{name...}`, at the "
            "end, the whole rest of the path; statements use them as `:name`. `.json`, `.csv`, `.csj` or `.ndjson` "
            "at the end of the path of a GET or HEAD chooses the format, as Accept does, except if the configured "
            "path ends with `{name...}`.",
            {.required = true});
    v.field("host", &EndpointOptions::host, host_meaning, {.check = check_host});
    v.field("database", &EndpointOptions::database,
            "The name of the database that the statements run on. If there is only one database, it is the default.");
    v.field("returns", &EndpointOptions::returns,
            "`rows`: the answer is all rows. `object`: the answer is the only row; no row is answered 404, and "
            "several rows are an error. `file`: GET answers with the file whose hash is in the first column of the "
            "only row. A column `type` gives the file's media type, which is otherwise guessed. A column `name` "
            "gives the name under which clients save the file.");
    v.field("formats", &EndpointOptions::formats,
            "The formats that the endpoint offers for answers with rows. A request for another format is answered "
            "406. Without it, all four are offered. If there is only one format, the OpenAPI description has one "
            "type for the answer, and clients that are generated from it know that type.",
            {.min = 1});
    v.field("summary", &EndpointOptions::summary,
            "A summary of the endpoint in a few words, for [openapi]. Each method may have its own summary.");
    v.field("description", &EndpointOptions::description, "A description of the endpoint, in Markdown.");
    v.field("store", &EndpointOptions::store,
            "The [store.NAME] that has the files of `returns = \"file\"`. If there is only one store, it is the "
            "default.");
    v.field("get", &EndpointOptions::get,
            "The statement that answers GET and HEAD. A statement that writes is refused. `:name` is bound to a "
            "parameter of the path or of the query string; values are never put into the SQL text.");
    v.field("parallel", &EndpointOptions::parallel,
            "PostgreSQL: reads a large answer of `get` on several connections at the same time. They share one "
            "snapshot, and each reads one range of the table's blocks after another. The statement must select rows "
            "of one table with `WHERE ctid >= :ctid_from AND ctid < :ctid_to`; Sluice sets these two parameters. It "
            "may not have ORDER BY, LIMIT, aggregates or joins.");
    v.field("list", &EndpointOptions::list,
            "Filters, search, sorting, pages and a count that clients can ask for. Without it, answers have "
            "all rows.");
    v.field("post", &EndpointOptions::post, "The statement that answers POST, or a table [endpoint.post].");
    v.field("put", &EndpointOptions::put, "The statement that answers PUT, or a table [endpoint.put].");
    v.field("patch", &EndpointOptions::patch, "The statement that answers PATCH, or a table [endpoint.patch].");
    v.field("delete", &EndpointOptions::delete_, "The statement that answers DELETE, or a table [endpoint.delete].");
    v.field("params", &EndpointOptions::params, "The parameters of the endpoint's statements, by name.");
    v.field("query", &EndpointOptions::query,
            "Query parameters that the endpoint does not use. `known`: the request is answered 400, "
            "with a list of the known ones. `any`: they are ignored.");
    v.field("timeout", &EndpointOptions::timeout,
            "How long the statement may run. After that it is cancelled and the request is answered 504. Without it, "
            "the database's `statement_timeout` applies.",
            {.min = 1ms, .max = 24h});
    v.field("cache_control", &EndpointOptions::cache_control, "The Cache-Control field of successful answers.");
    v.field("version", &EndpointOptions::version,
            "With `returns = \"object\"`: the column of `get` that changes whenever the row changes, such as a "
            "counter or a time of change. `*`: a hash of all columns. Answers then have an ETag, and the methods "
            "that write obey If-Match and If-None-Match. A generated PUT or PATCH raises an integer by one and sets a "
            "time to the current one.");
    v.field("require_match", &EndpointOptions::require_match,
            "With `version`: whether a write without If-Match and without `If-None-Match: *` is answered 428.");
    v.field("errors", &EndpointOptions::errors,
            "The answers to errors of the database, by SQLSTATE or class of SQLSTATE. These entries take precedence "
            "over those of [errors].");
    v.field("body_limit", &EndpointOptions::body_limit,
            "The longest body of a request. A longer one is answered 413. Without it, `body_limit` of [server] "
            "applies.",
            {.max = 16_GiB});
    v.field("row_limit", &EndpointOptions::row_limit,
            "The longest row of a body, in bytes as the client sends them. A longer one is answered 422. One request "
            "may hold this much in memory. Without it, 1 MiB.",
            {.min = 64_B, .max = 1_GiB});
    v.field("use", &EndpointOptions::use,
            "The names of the policies ([policy.NAME]) that apply to a request, in this order, whatever its method. "
            "A method that writes may have further ones, or be `public`.");
    v.field("public", &EndpointOptions::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &EndpointOptions::access_log, "`false`: the access log has no lines for these requests.");
    v.field(
        "require", &EndpointOptions::require,
        "Conditions for all requests; a request that does not meet them is answered 403. The value is an expression, "
        "a list of expressions, or [[endpoint.require]].");
    v.field("changes", &EndpointOptions::changes,
            "Publishes changes as Server-Sent Events at the endpoint's path followed by `/changes`. `{ notify = "
            "\"CHANNEL\" }` for PostgreSQL, `{ tables = [\"films\"] }` for SQLite.");
    v.position(&EndpointOptions::position);
  }
};

// The limits of a method's requests, in bytes: the method's own, else the endpoint's, else the server's or the default.
inline std::uint64_t body_limit(const EndpointOptions& endpoint, const MethodOptions& method, std::uint64_t server) {
  if (method.body_limit) return method.body_limit->value.bytes;
  return endpoint.body_limit ? endpoint.body_limit->value.bytes : server;
}
inline std::uint64_t row_limit(const EndpointOptions& endpoint, const MethodOptions& method) {
  if (method.row_limit) return method.row_limit->value.bytes;
  return endpoint.row_limit ? endpoint.row_limit->value.bytes : (std::uint64_t{1} << 20);
}

}  // namespace sluice::api
