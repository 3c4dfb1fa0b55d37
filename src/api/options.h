#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"
#include "sql/options.h"

namespace sluice::api {

// [endpoint.params.NAME]: a parameter of the statement, taken from the query string or, by its name, from the path.
struct ParamOptions {
  std::optional<Located<sql::ParameterType>> type;  // nullopt: the database's own type decides
  std::optional<Located<Scalar>> default_value;
  Located<bool> required = false;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("type", &ParamOptions::type,
            "What the value is checked as: 400 where it does not fit. Without it the database's own type decides. An "
            "empty value of a type other than `text` counts as missing.");
    v.field("default", &ParamOptions::default_value,
            "The value where the request has none. Without it the value is NULL.");
    v.field("required", &ParamOptions::required, "A request without the parameter is answered 400.");
    v.shorthand("type");
  }
};

enum class Returns : std::uint8_t { rows, object };

inline NameOf<Returns> names_of(Returns) { return {{"rows", Returns::rows}, {"object", Returns::object}}; }

// [[endpoint]]
struct EndpointOptions {
  Located<std::string> path;
  Located<std::string> database;  // once loaded, the name of one that exists
  Returns returns = Returns::rows;
  Located<std::string> get;
  std::vector<Named<ParamOptions>> params;
  std::optional<Duration> timeout;  // nullopt: the database's statement_timeout
  std::optional<Located<std::string>> cache_control;
  std::vector<Located<std::string>> use;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &EndpointOptions::path,
            "Where it is served. `{name}` takes a segment, `{name:int}` a number, `{name...}` at the end all that "
            "follows; the statement names them `:name`. `.json`, `.csv`, `.csj` or `.ndjson` at the end of a request's "
            "path chooses the format, as Accept does.",
            {.required = true});
    v.field("database", &EndpointOptions::database,
            "The name of the database that answers. Where there is only one, it is the default.");
    v.field("returns", &EndpointOptions::returns,
            "`rows`: all of them; `object`: exactly one, no row is answered 404, several are an error.");
    v.field("get", &EndpointOptions::get,
            "The statement that answers GET and HEAD; one that writes is refused. `:name` is bound as a parameter, never spliced: from the path or "
            "the query string.",
            {.required = true});
    v.field("params", &EndpointOptions::params, "What the statement's parameters are.");
    v.field("timeout", &EndpointOptions::timeout,
            "How long the statement may run before it is cancelled and answered 504. Without it the database's "
            "`statement_timeout` holds.",
            {.min = 1ms, .max = 24h});
    v.field("cache_control", &EndpointOptions::cache_control, "The Cache-Control of successful answers.");
    v.field("use", &EndpointOptions::use,
            "The names of the policies ([policy.NAME]) that a request must pass, in this order, whatever its method.");
    v.position(&EndpointOptions::position);
    for (const char* method : {"post", "put", "patch", "delete"}) v.planned(method);
  }
};

}  // namespace sluice::api
