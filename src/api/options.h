#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/changes/options.h"
#include "base/declare.h"
#include "http/request.h"
#include "sql/encode/format.h"
#include "sql/options.h"
#include "sql/parallel.h"
#include "sql/staging.h"
#include "sql/transaction.h"

namespace sluice::api {

// Where a value comes from.
enum class From : std::uint8_t { path, query, header, cookie, claim, environment, body, upload };

// Of `from`: what is wrong with it, or nothing.
[[nodiscard]] std::string check_source(std::string_view text);

enum class Returns : std::uint8_t { rows, object, file };

inline NameOf<Returns> names_of(Returns) {
  return {{"rows", Returns::rows}, {"object", Returns::object}, {"file", Returns::file}};
}

// What `max_deleted` says: "1000", "10%". Nothing: it says neither.
[[nodiscard]] std::optional<sql::DeletionLimit> parse_deletion_limit(std::string_view text);
// Of `max_deleted`: what is wrong with it, or nothing.
[[nodiscard]] std::string check_deletion_limit(std::string_view text);

// [endpoint.params.NAME]: a parameter of the endpoint's statements.
struct ParamOptions {
  std::optional<Located<std::string>> from;
  bool trim = false;
  std::optional<Located<sql::ParameterType>> type;  // nullopt: the database's own type decides
  std::optional<Located<Scalar>> default_value;
  Located<bool> required = false;
  Located<bool> ignored = false;
  Located<std::string> store;                // once loaded, the name of one that exists, where `from` is a file's hash
  std::optional<std::string> environment{};  // once loaded, the variable's value, where `from` is one that is set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field(
        "from", &ParamOptions::from,
        "Where the value comes from: `path.NAME`, `query.NAME`, `header.NAME`, `cookie.NAME`, `claim.NAME` (of the "
        "verified JWT, `claim.a.b` within objects), `env.NAME`, "
        "`body.NAME`, `body.NAME.NAME` or `body`, which is all of it; `upload.NAME` and `upload`, the SHA-256 of a "
        "file "
        "that is stored: a part of a multipart/form-data body, or the whole body. Without it: the path where it has "
        "a parameter of that name; else `query` for GET and DELETE, and `body` for POST, PUT and PATCH.",
        {.check = check_source});
    v.field("trim", &ParamOptions::trim,
            "Blanks at the ends of the value do not count. With `required`, a value of nothing else is missing.");
    v.field("type", &ParamOptions::type,
            "What the value is checked as: 400 where it does not fit, 422 for a field of the body. Without it the "
            "database's own type decides. An "
            "empty value of a type other than `text` counts as missing, except in JSON and in claims. `bytes`: "
            "`\\x0aff`. `int[]`, `text[]`, "
            "`real[]`, `bool[]`: all "
            "values of the query parameter (`?id=1&id=3`), for `id = ANY(:id)` of PostgreSQL, and as a JSON array for "
            "`id IN (SELECT value FROM json_each(:id))` of SQLite.");
    v.field("default", &ParamOptions::default_value,
            "The value where the request has none. Without it the value is NULL.");
    v.field("required", &ParamOptions::required,
            "A request without the parameter is answered 400, or 422 where it is a field of the body.");
    v.field("ignored", &ParamOptions::ignored,
            "A body may have a field of this name, and its value is not used: so a client can send back what GET "
            "answered.");
    v.field(
        "store", &ParamOptions::store,
        "Where the file of an `upload` goes: the name of a [store.NAME]. Where there is only one, it is the default.");
    v.shorthand("type");
  }
};

// What becomes of parameters of the query string that nothing takes.
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
    v.field("key", &ColumnOptions::key, "The column says, with the other keys, which row is meant.");
    v.field("from", own(&ParamOptions::from),
            "Where the value comes from, as for [endpoint.params]. Without it: the body's field of the column's name. "
            "A key "
            "of PATCH, PUT or DELETE needs it where the path has a parameter of that name.",
            {.check = check_source});
    v.field("required", own(&ParamOptions::required), "A row without a value, or with null, is refused.");
    v.field("default", own(&ParamOptions::default_value), "The value where the request has none.");
    v.field("trim", own(&ParamOptions::trim), "As for [endpoint.params].");
    v.field("type", own(&ParamOptions::type),
            "What the value is checked as. Without it the database's own type decides.");
    v.field("ignored", own(&ParamOptions::ignored),
            "A body may have a field of this name, and its value is not used: so a client can send back what GET "
            "answered. Without `from` the column is not written. Columns whose values the database generates are "
            "ignored without being named.");
    v.field("store", own(&ParamOptions::store), "Where the file of an `upload` goes, as for [endpoint.params].");
  }
};

// [[endpoint.require]]: what must hold before anything is done.
struct RequireOptions {
  Located<std::string> that;
  Located<std::uint32_t> status = {403};
  std::string detail;
  std::map<std::string, std::string> environment{};  // once loaded, those of the variables in `that` that are set

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("that", &RequireOptions::that,
            "An expression: `eq(claim.role, 'admin')`, `ne`, `in(x, 'a', 'b')`, `contains(claim.roles, 'admin')`, "
            "`present(x)`, `and`, `or`, `not`, `exists(SELECT ... WHERE member = claim.sub)`. Values are sources as in "
            "`from`, texts, numbers.",
            {.required = true});
    v.field("status", &RequireOptions::status, "Of the answer where it does not hold.", {.min = 400, .max = 499});
    v.field("detail", &RequireOptions::detail, "What that answer says.");
    v.shorthand("that");
  }
};

// [errors.CODE] and [endpoint.errors.CODE]: what an error of the database is answered with.
struct ErrorOptions {
  Located<std::uint32_t> status;
  Located<std::string> type;
  std::string title;
  Located<std::string> detail;
  bool show_message = false;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("status", &ErrorOptions::status, "Of the answer.", {.min = 400, .max = 599, .required = true});
    v.field("type", &ErrorOptions::type, "The problem's `type`, a URI. Without it `about:blank`.");
    v.field("title", &ErrorOptions::title, "The problem's `title`. Without it the status' own phrase.");
    v.field("detail", &ErrorOptions::detail,
            "The problem's `detail`. Without it what is said where there is no entry.");
    v.field(
        "show_message", &ErrorOptions::show_message,
        "The database's own message is the `detail`, such as that of RAISE EXCEPTION. It may name tables, columns and "
        "values: turn it on for errors that functions and triggers raise for clients.");
    v.position(&ErrorOptions::position);
    v.shorthand("status");
  }
};

// [endpoint.post] and its like: what a method that writes does.
struct MethodOptions {
  Located<std::string> sql;
  Located<std::string> table;
  std::vector<Named<ColumnOptions>> columns;
  Located<std::string> existing;
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
  OneOrMore<RequireOptions> require;
  std::optional<Located<JsonOrFile>> schema;
  std::optional<Located<ByteSize>> body_limit;
  std::optional<Located<ByteSize>> row_limit;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("sql", &MethodOptions::sql,
            "The statement that answers the method. It may write. `:name` is bound as a parameter, never spliced. Its "
            "rows (of RETURNING) are the answer. A body of several rows runs it once for each, in one transaction.");
    v.field("table", &MethodOptions::table,
            "In place of a statement: the table whose `columns` are written. POST inserts, PATCH updates what the "
            "request names, PUT inserts or replaces; DELETE deletes. Rows are found by the columns that are keys.");
    v.field("columns", &MethodOptions::columns,
            "The columns of the table. A field of the body that none of them takes is refused.");
    v.field("existing", &MethodOptions::existing,
            "PUT of a set: the statement that selects what the body's rows replace; it returns the keys. Rows that are "
            "not in the body are deleted, those that are equal are left alone. The answer counts. A row of the table "
            "that it does not select is never changed: a body that has its key is refused. PATCH of a set: what alone "
            "may be changed; without it, every row of the table.");
    v.field("set", &MethodOptions::set,
            "PATCH of a set: the body's rows are inserted, or update what is there, and nothing is deleted. The answer "
            "counts.");
    v.field("accepts_object", &MethodOptions::accepts_object,
            "PUT of a set: the body may be one object, or a form, which is then the whole set. Without it such a body "
            "is answered 400.");
    v.field(
        "max_deleted", &MethodOptions::max_deleted,
        "PUT of a set: how many rows one request may delete: a number, or a share of the rows that `existing` "
        "selects, such as `\"10%\"`. A request that would delete more is answered 409 and writes nothing, unless its "
        "query parameter `max-deleted` allows as many.",
        {.check = check_deletion_limit});
    v.field("returns", &MethodOptions::returns,
            "The answer of this method, where it differs from the endpoint's `returns`: `rows`, a list, or `object`, "
            "one object.");
    v.field("creates", &MethodOptions::creates,
            "Whether the method creates, so that it is answered 201, with `location` where that is set. Without it: a "
            "POST with `table` or INSERT does, and a PUT with `table`. Set it for a function and for `WITH ... "
            "INSERT`.");
    v.field("returning", &MethodOptions::returning,
            "The columns of the written row that are the answer, as in SQL's RETURNING: `id, slug`.");
    v.field("before", &MethodOptions::before,
            "Statements that run before it, in the same transaction, once for each request. A set has none.");
    v.field("location", &MethodOptions::location,
            "The Location of what was created: a path with `{name}` for columns that the statement returns.");
    v.field("isolation", &MethodOptions::isolation,
            "Of the transaction. SQLite's transactions are always serializable.");
    v.field("retries", &MethodOptions::retries,
            "PostgreSQL: how often the transaction is tried again where another one was in its way (SQLSTATE 40001, "
            "40P01).",
            {.max = 100});
    v.field("summary", &MethodOptions::summary, "As the endpoint's, for this method.");
    v.field("description", &MethodOptions::description, "As the endpoint's, for this method.");
    v.field("require", &MethodOptions::require, "What must hold for this method, beside what the endpoint requires.");
    v.field("schema", &MethodOptions::schema,
            "A JSON Schema that each row of the body must fit, else 422: draft 7, as a table, as JSON in a string, or "
            "in a file, whose path is from the folder of "
            "the configuration file.");
    v.field("body_limit", &MethodOptions::body_limit, "As the endpoint's, for this method.", {.max = 16_GiB});
    v.field("row_limit", &MethodOptions::row_limit, "As the endpoint's, for this method.", {.min = 64_B, .max = 1_GiB});
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
            "How many read it, at most: those that are free, and fewer where the table is small. Less than the "
            "database's `pool`.",
            {.min = 1, .max = 64});
    v.field(
        "ordered", &ParallelOptions::ordered,
        "Rows come in the order in which they lie in the table. `false`: as they arrive, which takes less memory and "
        "keeps all connections busy.");
    v.position(&ParallelOptions::position);
    v.shorthand("connections");
  }
};

// [[endpoint]]
struct EndpointOptions {
  Located<std::string> path;
  Located<std::string> database;  // once loaded, the name of one that exists
  Returns returns = Returns::rows;
  std::vector<Located<sql::Format>> formats;  // empty: all
  std::string summary;
  std::string description;
  Located<std::string> store;  // once loaded, the name of one that exists, where `returns` is a file
  Located<std::string> get;
  std::optional<ParallelOptions> parallel;
  std::optional<MethodOptions> post;
  std::optional<MethodOptions> put;
  std::optional<MethodOptions> patch;
  std::optional<MethodOptions> delete_;
  std::vector<Named<ParamOptions>> params;
  QueryParameters query = QueryParameters::known;
  std::optional<Duration> timeout;  // nullopt: the database's statement_timeout
  std::optional<Located<std::string>> cache_control;
  Located<std::string> version;
  Located<bool> require_match = false;
  std::vector<Named<ErrorOptions>> errors;
  std::optional<Located<ByteSize>> body_limit;
  std::optional<Located<ByteSize>> row_limit;
  std::vector<Located<std::string>> use;
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

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &EndpointOptions::path,
            "Where it is served. `{name}` takes a segment, `{name:int}` a number, `{name...}` at the end all that "
            "follows; the statement names them `:name`. `.json`, `.csv`, `.csj` or `.ndjson` at the end of a request's "
            "path chooses the format, as Accept does, but for a path that ends with `{name...}`.",
            {.required = true});
    v.field("database", &EndpointOptions::database,
            "The name of the database that answers. Where there is only one, it is the default.");
    v.field(
        "returns", &EndpointOptions::returns,
        "`rows`: all of them; `object`: exactly one, no row is answered 404, several are an error; `file`: GET answers "
        "with the file whose hash is the first column of its only row. A column `type` says its media type, which is "
        "guessed otherwise, and a column `name` what it is saved as.");
    v.field(
        "formats", &EndpointOptions::formats,
        "The formats of answers with rows that the endpoint offers; 406 for others. Without it all four. A client that "
        "is generated from a description with one format knows the type of an answer.",
        {.min = 1});
    v.field("summary", &EndpointOptions::summary,
            "What its methods do, in a few words, for [openapi]. Methods may have their own.");
    v.field("description", &EndpointOptions::description, "The same at length; Markdown.");
    v.field(
        "store", &EndpointOptions::store,
        "Where the file of `returns = \"file\"` lies: the name of a [store.NAME]. Where there is only one, it is the "
        "default.");
    v.field("get", &EndpointOptions::get,
            "The statement that answers GET and HEAD; one that writes is refused. `:name` is bound as a parameter, "
            "never spliced: from the path or the query string.");
    v.field("parallel", &EndpointOptions::parallel,
            "PostgreSQL, for large answers of `get`: a number of connections that read it at the same time, all of the "
            "same "
            "snapshot, each a range of the table's blocks at a time. The statement selects rows of one table and says "
            "`WHERE ctid >= :ctid_from AND ctid < :ctid_to`, for which Sluice has the values; without ORDER BY, LIMIT, "
            "aggregates and joins.");
    v.field("post", &EndpointOptions::post, "The statement that answers POST, or [endpoint.post].");
    v.field("put", &EndpointOptions::put, "The statement that answers PUT, or [endpoint.put].");
    v.field("patch", &EndpointOptions::patch, "The statement that answers PATCH, or [endpoint.patch].");
    v.field("delete", &EndpointOptions::delete_, "The statement that answers DELETE, or [endpoint.delete].");
    v.field("params", &EndpointOptions::params, "What the statement's parameters are.");
    v.field("query", &EndpointOptions::query,
            "Parameters of the query string that nothing takes: `known`: they are answered 400, with those that are "
            "possible; `any`: they are passed over.");
    v.field("timeout", &EndpointOptions::timeout,
            "How long the statement may run before it is cancelled and answered 504. Without it the database's "
            "`statement_timeout` holds.",
            {.min = 1ms, .max = 24h});
    v.field("cache_control", &EndpointOptions::cache_control, "The Cache-Control of successful answers.");
    v.field(
        "version", &EndpointOptions::version,
        "With `returns = \"object\"`: the column of `get` that tells one state of the row from another, such as a "
        "counter or a time of change; `*`: all columns, by a hash of them. Answers then have an ETag, and the methods "
        "that write obey If-Match and If-None-Match.");
    v.field("require_match", &EndpointOptions::require_match,
            "With `version`: a write that has neither If-Match nor `If-None-Match: *` is answered 428.");
    v.field("errors", &EndpointOptions::errors,
            "What errors of the database are answered with, before what [errors] says of them.");
    v.field("body_limit", &EndpointOptions::body_limit,
            "The longest body of a request: 413 beyond it. Without it `body_limit` of [server].", {.max = 16_GiB});
    v.field("row_limit", &EndpointOptions::row_limit,
            "The longest row of a body, as it is written there: 422 beyond it. Of one request that much may be held in "
            "memory. "
            "Without it 1 MiB.",
            {.min = 64_B, .max = 1_GiB});
    v.field("use", &EndpointOptions::use,
            "The names of the policies ([policy.NAME]) that a request must pass, in this order, whatever its method.");
    v.field("require", &EndpointOptions::require,
            "What must hold of a request by any method that the endpoint has, else it is answered 403: an expression, "
            "a list of them, or [[endpoint.require]].");
    v.field(
        "changes", &EndpointOptions::changes,
        "What changes is told at the path with `/changes` behind it, as Server-Sent Events: `{ notify = \"CHANNEL\" }` "
        "(PostgreSQL) or `{ tables = [\"films\"] }` (SQLite).");
    v.position(&EndpointOptions::position);
  }
};

// In bytes, of one method's requests: its own limit, the endpoint's, or the server's.
inline std::uint64_t body_limit(const EndpointOptions& endpoint, const MethodOptions& method, std::uint64_t server) {
  if (method.body_limit) return method.body_limit->value.bytes;
  return endpoint.body_limit ? endpoint.body_limit->value.bytes : server;
}
inline std::uint64_t row_limit(const EndpointOptions& endpoint, const MethodOptions& method) {
  if (method.row_limit) return method.row_limit->value.bytes;
  return endpoint.row_limit ? endpoint.row_limit->value.bytes : (std::uint64_t{1} << 20);
}

}  // namespace sluice::api
