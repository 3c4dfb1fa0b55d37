#include "app/config/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "api/require.h"
#include "api/role.h"
#include "api/source.h"
#include "app/config/check_database.h"
#include "app/config/check_endpoint.h"
#include "app/config/check_resident.h"
#include "app/config/check_server.h"
#include "app/config/choose_store.h"
#include "app/config/complain.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "app/listen.h"
#include "core/address.h"
#include "http/router.h"
#include "sql/parameters.h"

namespace sluice::app::config {
namespace {

class Checker {
 public:
  Checker(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors)
      : options_(options), source_(source), environment_(environment), errors_(errors) {}

  void run() {
    for (const auto& listen : options_.server.listen) check_listen(listen, Listen::parse(listen.value).address);
    if (!options_.admin.listen.value.empty()) check_listen(options_.admin.listen, options_.admin.listen.value);
    check_server(options_.server, source_, Complain{errors_});
    for (auto& database : options_.databases) check_database(database.value, environment_, Complain{errors_});
    for (const auto& policy : options_.policies) check_policy(policy);
    check_errors(options_.errors, Complain{errors_});
    for (auto& store : options_.stores) check_store(store);
    for (auto& endpoint : options_.endpoints) check_endpoint(endpoint);
    for (auto& resident : options_.residents) check_resident(resident);
    check_upstreams();
    for (const auto& route : options_.routes) check_route(route);
    for (auto& files : options_.files) check_files(files);
    for (auto& websocket : options_.websockets) check_websocket(websocket);
    if (options_.openapi) check_openapi(*options_.openapi);
    if (options_.batch) check_batch(*options_.batch);
    if (auto& log = options_.request_log) choose_database(log->database, log->position, "[request_log]");
    if (options_.endpoints.empty() && options_.residents.empty() && options_.files.empty() &&
        options_.websockets.empty() && options_.routes.empty() && errors_.empty()) {
      complain({}, "there is nothing to serve",
               "add an [[endpoint]], [[resident]], [[files]], [[websocket]] or [[route]]");
    }
  }

 private:
  void complain(Position position, std::string message, std::string hint = {}) {
    errors_.push_back({position, std::move(message), std::move(hint)});
  }

  void check_field_value(const Located<std::string>& field) {
    config::check_field_value(field, source_, Complain{errors_});
  }

  void check_listen(const Located<std::string>& listen, std::string_view written) {
    auto address = core::Address::parse(written);
    if (!address) {
      complain(listen.position, "this is not an address to listen on",
               "write \"127.0.0.1:8080\", \"[::1]:8080\", \"*:8080\" or \"unix:/run/sluice.sock\"");
      return;
    }
    // Port 0 is a new one each time.
    std::string text = address->text();
    bool fresh = address->family() == AF_UNIX || address->port() != 0;
    if (!fresh || addresses_.emplace(text, listen.position).second) return;
    if (listen.position.line == 0) {
      complain(addresses_[text], fmt::format("{} is where [admin] listens by default", text),
               "give [admin] another \"listen\"");
    } else {
      complain(listen.position, fmt::format("{} is already listened on", text), again(addresses_[text]));
    }
  }

  // Without a token there is no role, and every request would be refused.
  void check_role_of(const api::EndpointOptions& endpoint) {
    const auto database = std::ranges::find(options_.databases, endpoint.database.value,
                                            [](const auto& one) -> const std::string& { return one.name.value; });
    if (database == options_.databases.end() || database->value.is_sqlite() || !database->value.role) return;
    const auto source = api::parse_source(database->value.role->value);
    if (!source || source->from != api::From::claim || !database->value.anonymous_role.value.empty()) return;
    if (options_.uses(endpoint.use, gateway::PolicyType::jwt)) return;
    complain(endpoint.position,
             fmt::format("[database.{}] takes its role from a claim, and no policy of type \"jwt\" is in front",
                         database->name.value),
             "add use = [\"NAME\"] and [policy.NAME], or anonymous_role to the database");
  }

  void check_policy(const Named<gateway::PolicyOptions>& policy) {
    switch (policy.value.type.value) {
      case gateway::PolicyType::jwt:
        return check_jwt(policy.name, policy.value.jwt);
      case gateway::PolicyType::cors:
        return check_cors(policy.name, policy.value.cors);
    }
  }

  void check_cors(const Located<std::string>& name, const gateway::cors::Options& options) {
    const auto any = std::ranges::find(options.origins, "*", &Located<std::string>::value);
    if (any != options.origins.end() && options.credentials) {
      complain(any->position,
               fmt::format("[policy.{}] has \"credentials\", and then no browser takes the origin \"*\"", name.value),
               "name the origins");
    }
    for (const auto& header : options_.server.headers) {
      if (!http::same_name(header.name.value.substr(0, 15), "access-control-")) continue;
      complain(header.name.position, fmt::format("[policy.{}] gives answers this field too", name.value),
               "leave it to the policy");
    }
  }

  void check_jwt(const Located<std::string>& policy, const gateway::jwt::Options& options) {
    const std::optional<Located<std::string>>* first = nullptr;
    const std::pair<const char*, const std::optional<Located<std::string>>*> keys[] = {
        {"secret", &options.secret},
        {"secret_file", &options.secret_file},
        {"public_key", &options.public_key},
        {"jwks", &options.jwks}};
    for (const auto& [name, key] : keys) {
      if (!*key) continue;
      // Not at the value's place: an error shows its line, and that may be a secret's.
      if (first != nullptr) {
        complain(policy.position, fmt::format("[policy.{}] has more than one of \"secret\", \"secret_file\", "
                                              "\"public_key\" and \"jwks\"",
                                              policy.value));
        break;
      }
      first = key;
    }
    if (options.jwks && (options.jwks->value.starts_with("https://") || options.jwks->value.starts_with("http://"))) {
      complain(options.jwks->position, "\"jwks\" by URL is not supported yet", "write the path of a file");
    }
    if (first == nullptr && errors_.empty()) {  // else it may be there, and wrong
      complain(policy.position, fmt::format("[policy.{}] has no key to verify tokens with", policy.value),
               "add \"secret\", \"secret_file\", \"public_key\" or \"jwks\"");
    }
  }

  void check_use(const std::vector<Located<std::string>>& use) {
    std::vector<std::string_view> names;
    for (const auto& policy : options_.policies) names.push_back(policy.name.value);
    std::map<std::string_view, Position> before;
    std::set<gateway::PolicyType> types;
    for (const auto& name : use) {
      const auto index = options_.find_policy(name.value);
      if (!index) {
        complain(name.position, fmt::format("there is no [policy.{}]", name.value), did_you_mean(name.value, names));
        continue;
      }
      if (auto [other, is_new] = before.emplace(name.value, name.position); !is_new) {
        complain(name.position, fmt::format("\"{}\" comes twice", name.value));
        continue;
      }
      // The claims of which, and the origins?
      const gateway::PolicyType type = options_.policies[*index].value.type.value;
      if (!types.insert(type).second) {
        complain(name.position, fmt::format("a route uses one policy of type \"{}\" at most", name_of_value(type)));
      }
    }
  }

  void check_endpoint(api::EndpointOptions& endpoint) {
    choose_database(endpoint.database, endpoint.position, "this endpoint");
    check_use(endpoint.use);
    check_role_of(endpoint);
    const auto path = http::Pattern::parse(endpoint.path.value);
    check_requirements(endpoint, endpoint.require, path ? *path : http::Pattern{});
    for (const auto& [method, writing] : endpoint.writing_methods()) {
      check_requirements(endpoint, writing->require, path ? *path : http::Pattern{});
    }
    if (endpoint.cache_control) check_field_value(*endpoint.cache_control);

    http::Pattern pattern;
    if (auto parsed = parse_path(endpoint.path)) {
      pattern = std::move(*parsed);
      if (auto [other, is_new] = endpoints_.emplace(shape_of(pattern), endpoint.path.position); !is_new) {
        complain(endpoint.path.position, "another endpoint has the same path", again(other->second));
      }
    }
    if (endpoint.path.value.size() > options_.server.target_limit.value) {
      complain(endpoint.path.position, "no request reaches this path: it is longer than target_limit");
    }
    if (endpoint.cache_control && endpoint.get.value.empty()) {
      complain(endpoint.cache_control->position, "\"cache_control\" is for the answers of \"get\", which is not there");
    }
    if (endpoint.parallel) check_parallel(options_, endpoint, pattern, Complain{errors_});
    if (endpoint.changes) check_changes(endpoint, pattern);
    if (endpoint.get.value.empty() && endpoint.writing_methods().empty() && !endpoint.changes && errors_.empty()) {
      complain(endpoint.position, "this endpoint answers no method",
               "add get = \"SELECT ...\", or post, put, patch, delete");
    }
    check_formats(endpoint, Complain{errors_});
    check_version(endpoint, Complain{errors_});
    check_errors(endpoint.errors, Complain{errors_});
    check_limits_of_bodies(options_, endpoint, Complain{errors_});
    choose_stores(options_, endpoint, Complain{errors_});
    for (const auto& [method, writing] : endpoint.writing_methods()) check_method(endpoint, method, *writing, pattern);
    for (auto& parameter : endpoint.params) {
      check_parameter(parameter, pattern);
      check_source(endpoint, parameter.value, pattern);
    }
  }

  void check_changes(const api::EndpointOptions& endpoint, const http::Pattern& pattern) {
    if (!config::check_changes(options_, endpoint, Complain{errors_})) return;
    const api::changes::Options& changes = *endpoint.changes;
    if (!pattern.segments.empty() && pattern.segments.back().kind == http::Pattern::Kind::rest) {
      complain(changes.position, "a path that takes all that follows has no room for \"/changes\"");
      return;
    }
    http::Pattern own = pattern;
    own.segments.push_back({http::Pattern::Kind::literal, "changes"});
    if (auto [other, is_new] = endpoints_.emplace(shape_of(own), changes.position); !is_new) {
      complain(changes.position, "another endpoint has the path with \"/changes\" behind it", again(other->second));
    }
  }

  void check_store(Named<files::StoreOptions>& store) {
    files::StoreOptions& options = store.value;
    if (!options.database.value.empty() && options.used.value.empty()) {
      complain(options.database.position, "\"database\" is for \"used\", which is not there");
    } else if (!options.used.value.empty()) {
      choose_database(options.database, options.used.position, "the statement of \"used\"");
    }
  }

  void check_method(const api::EndpointOptions& endpoint, http::Method method, api::MethodOptions& writing,
                    const http::Pattern& pattern) {
    check_writing(options_, endpoint, method, writing, Complain{errors_});
    const bool is_set = writing.set.value || !writing.existing.value.empty();
    for (auto& column : writing.columns) {
      check_source(endpoint, column.value, pattern);
      check_default(column.name, column.value);
      // A guard on the path's value would say nothing of the row that the body names.
      const std::string& name = column.name.value;
      if (column.value.key && !column.value.from && method != http::Method::post &&
          std::ranges::count(pattern.names(), name) != 0) {
        complain(
            column.name.position,
            fmt::format("the key \"{}\" has no \"from\", and the path has a parameter of that name", name),
            fmt::format("add from = \"path.{0}\", or from = \"body.{0}\" if the body says which row is meant", name));
      }
      const auto source = source_of(column.value);
      if (source && source->from == api::From::upload && (is_set || method == http::Method::delete_)) {
        complain(column.value.from->position, is_set ? "a set takes no files" : "DELETE takes no files");
      }
    }
  }

  void check_requirements(const api::EndpointOptions& endpoint, OneOrMore<api::RequireOptions>& require,
                          const http::Pattern& pattern) {
    for (api::RequireOptions& one : require.items) {
      if (one.that.value.empty()) continue;  // complained about when it was read
      if (one.status.value == 401) {
        complain(one.status.position, "401 asks for a token, which is the policy's matter");
      }
      const auto parsed = api::parse_requirement(one.that.value);
      const auto place = [&](std::size_t offset) {
        const auto before = std::string_view(one.that.value).substr(0, offset);
        return source_.locate(one.that.position, count_characters(before) + 1);
      };
      if (!parsed) {
        complain(place(parsed.error().offset), parsed.error().message);
        continue;
      }
      check_requirement(endpoint, *parsed, pattern, place, one.environment);
    }
  }

  static bool is_list(const api::EndpointOptions& endpoint, std::string_view source) {
    return std::ranges::any_of(endpoint.params, [&](const auto& param) {
      const std::string from = param.value.from ? param.value.from->value : "query." + param.name.value;
      return from == source && param.value.type && sql::is_list(param.value.type->value);
    });
  }

  template <class Place>
  void check_requirement(const api::EndpointOptions& endpoint, const api::Requirement& requirement,
                         const http::Pattern& pattern, const Place& place,
                         std::map<std::string, std::string>& environment) {
    for (const api::Operand& operand : requirement.operands) {
      if (!operand.source) continue;
      api::ParamOptions options;
      options.from = Located<std::string>(operand.text, place(operand.offset));
      check_source(endpoint, options, pattern);
      if (options.environment) environment[operand.text] = *options.environment;
      if (options.environment && options.environment->empty()) {
        complain(options.from->position, fmt::format("{} is empty", operand.text), "a request may have as little");
      }
      if (requirement.kind != api::Requirement::Kind::present && is_list(endpoint, operand.text)) {
        complain(options.from->position,
                 fmt::format("\"{}\" is a list, which nothing can be compared with", operand.text));
      }
    }
    if (!requirement.claims.empty()) {
      api::ParamOptions options;
      options.from = Located<std::string>("claim." + requirement.claims[0].second, place(requirement.offset));
      check_source(endpoint, options, pattern);
    }
    for (const api::Requirement& part : requirement.parts)
      check_requirement(endpoint, part, pattern, place, environment);
  }

  void check_default(const Located<std::string>& name, const api::ParamOptions& options) {
    if (options.default_value && options.required.value) {
      complain(options.required.position, "a parameter with a default is never missing",
               "remove \"required\" or \"default\"");
    }
    if (options.default_value && options.type && sql::is_list(options.type->value)) {
      complain(options.default_value->position, "a list has no default: without a value it is NULL");
    } else if (options.default_value && options.type &&
               !sql::fits(options.type->value, options.default_value->value.text)) {
      complain(options.default_value->position, fmt::format("this does not fit the type of \"{}\"", name.value));
    }
  }

  void check_source(const api::EndpointOptions& endpoint, api::ParamOptions& options, const http::Pattern& pattern) {
    if (!options.from) return;
    const auto& from = *options.from;
    const auto source = api::parse_source(from.value);
    if (!source) return;  // complained about when it was read
    const auto names = pattern.names();
    if (source->from == api::From::upload && options.default_value) {
      complain(options.default_value->position, "a file has no default");
    }
    if (source->from == api::From::path && std::ranges::find(names, source->key) == names.end()) {
      complain(from.position, fmt::format("there is no {{{}}} in the path", source->key));
    }
    if (source->from == api::From::claim && !options_.uses(endpoint.use, gateway::PolicyType::jwt)) {
      complain(from.position, "there are no claims without a policy of type \"jwt\" in front",
               "add use = [\"NAME\"] and [policy.NAME]");
    }
    if (source->from != api::From::environment) return;
    options.environment = environment_(source->key);
    if (!options.environment && !options.default_value) {
      complain(from.position, fmt::format("the environment has no {}", source->key), "set it, or add a default");
    }
  }

  void check_websocket(const ws::WebSocketOptions& websocket) {
    check_use(websocket.use);
    if (options_.uses(websocket.use, gateway::PolicyType::cors)) {
      complain(websocket.path.position, "a policy of type \"cors\" means nothing to a websocket",
               "\"origins\" of [[websocket]] says whose pages may connect");
    }
    if (websocket.max_frame && websocket.max_frame->value > websocket.max_message) {
      complain(websocket.max_frame->position, "\"max_frame\" is larger than \"max_message\" lets it become");
    }
    const auto pattern = parse_path(websocket.path);
    if (!pattern) return;
    if (auto [other, is_new] = endpoints_.emplace(shape_of(*pattern), websocket.path.position); !is_new) {
      complain(websocket.path.position, "an endpoint or another websocket has the same path", again(other->second));
    }
  }

  void check_upstreams() {
    std::map<std::string_view, Position> names;
    for (const auto& upstream : options_.upstreams) {
      if (auto [other, is_new] = names.emplace(upstream.name.value, upstream.name.position); !is_new) {
        complain(upstream.name.position, "another upstream has the same name", again(other->second));
      }
      std::map<std::string_view, Position> servers;
      for (const auto& server : upstream.servers) {
        if (auto [other, is_new] = servers.emplace(server.value, server.position); !is_new) {
          complain(server.position, "this server comes twice", again(other->second));
        }
      }
    }
  }

  void check_route(const gateway::RouteOptions& route) {
    check_use(route.use);
    if (!options_.find_upstream(route.upstream.value) && !route.upstream.value.empty()) {
      std::vector<std::string_view> names;
      for (const auto& upstream : options_.upstreams) names.push_back(upstream.name.value);
      complain(route.upstream.position, fmt::format("there is no [[upstream]] called \"{}\"", route.upstream.value),
               did_you_mean(route.upstream.value, names));
    }
    const auto pattern = parse_path(route.path);
    if (!pattern) return;
    if (auto [other, is_new] = endpoints_.emplace(shape_of(*pattern), route.path.position); !is_new) {
      complain(route.path.position, "another route has the same path", again(other->second));
    }
  }

  void check_openapi(const api::openapi::Options& openapi) {
    check_use(openapi.use);
    const auto pattern = parse_path(openapi.path);
    if (!pattern) return;
    if (!pattern->names().empty()) {
      complain(openapi.path.position, "the path of [openapi] has no parameters");
    } else if (auto [other, is_new] = endpoints_.emplace(shape_of(*pattern), openapi.path.position); !is_new) {
      complain(openapi.path.position.line == 0 ? openapi.position : openapi.path.position,
               fmt::format("an endpoint or a websocket has the path {}", openapi.path.value), again(other->second));
    }
  }

  void check_batch(api::batch::Options& batch) {
    check_use(batch.use);
    const auto pattern = parse_path(batch.path);
    if (!pattern) return;
    const Position position = batch.path.position.line == 0 ? batch.position : batch.path.position;
    if (!pattern->names().empty()) {
      complain(position, "the path of [batch] has no parameters");
    } else if (auto [other, is_new] = endpoints_.emplace(shape_of(*pattern), position); !is_new) {
      complain(position, fmt::format("something else has the path {}", batch.path.value), again(other->second));
    }
    choose_database(batch.database, batch.position, "[batch]");
    const auto* database = database_of(options_, batch.database.value);
    if (database != nullptr && database->is_sqlite() && batch.retries.position.line != 0 && batch.retries.value != 0) {
      complain(batch.retries.position, "\"retries\" is for PostgreSQL: SQLite has one writer at a time, who waits");
    }
    const auto called = [&](const api::EndpointOptions& endpoint) {
      return endpoint.database.value == batch.database.value;
    };
    if (errors_.empty() && std::ranges::none_of(options_.endpoints, called)) {
      complain(batch.position, fmt::format("no endpoint of the database \"{}\" could be called", batch.database.value));
    }
  }

  // Nothing where it was complained about.
  std::optional<http::Pattern> parse_path(const Located<std::string>& path) {
    if (path.value.empty()) return {};
    std::uint32_t character = 0;
    for (char byte : path.value) {
      auto code = static_cast<unsigned char>(byte);
      if ((code & 0xc0) != 0x80) ++character;
      std::string wrong;
      if (byte == '?' || byte == '#') wrong = "a path ends before the query string and \"#\"";
      if (byte == '%') wrong = "paths are compared decoded: write the character itself";
      if (code <= 0x20 || code == 0x7f) wrong = "a path has no spaces and no control characters";
      if (wrong.empty()) continue;
      complain(source_.locate(path.position, character), std::move(wrong));
      return {};
    }
    if (const auto colon = path.value.find("/:"); colon != std::string::npos) {
      complain(source_.locate(path.position, count_characters(path.value.substr(0, colon)) + 2),
               "a part of a path does not begin with \":\"", "a parameter is written {name}");
      return {};
    }
    auto pattern = http::Pattern::parse(path.value);
    if (pattern) return std::move(*pattern);
    complain(path.position, fmt::format("not a path: {}", pattern.error()));
    return {};
  }

  // The same for two patterns that match the same paths.
  static std::string shape_of(const http::Pattern& pattern) {
    std::string shape;
    for (const auto& segment : pattern.segments) {
      switch (segment.kind) {
        case http::Pattern::Kind::literal:
          shape += "/" + segment.text;
          break;
        case http::Pattern::Kind::integer:
          shape += "/{:int}";
          break;
        case http::Pattern::Kind::segment:
          shape += "/{}";
          break;
        case http::Pattern::Kind::rest:
          shape += "/{...}";
          break;
      }
    }
    return shape;
  }

  void choose_database(Located<std::string>& database, Position position, std::string_view whose) {
    std::vector<std::string_view> names;
    for (const auto& one : options_.databases) names.push_back(one.name.value);
    const std::string& wanted = database.value;
    if (!wanted.empty() && std::ranges::find(names, wanted) == names.end()) {
      complain(database.position, fmt::format("there is no [database.{}]", wanted), did_you_mean(wanted, names));
    } else if (wanted.empty() && names.empty()) {
      complain(position, fmt::format("{} needs a database", whose), "add [database.main]");
    } else if (wanted.empty() && names.size() > 1) {
      complain(position, fmt::format("{} must say which database answers it", whose),
               fmt::format("add database = \"{}\"", names[0]));
    } else if (wanted.empty()) {
      database.value = names[0];
    }
  }

  void check_parameter(const Named<api::ParamOptions>& parameter, const http::Pattern& pattern) {
    const api::ParamOptions& options = parameter.value;
    const std::string& name = parameter.name.value;
    auto in_path = std::ranges::find_if(pattern.segments, [&](const auto& segment) {
      return segment.kind != http::Pattern::Kind::literal && segment.text == name;
    });
    if (in_path != pattern.segments.end()) {
      if (options.default_value) {
        complain(options.default_value->position,
                 fmt::format("{{{}}} is in the path: its default is never used", name));
      }
      if (options.required.value) {
        complain(options.required.position, fmt::format("{{{}}} is in the path: it is never missing", name));
      }
      if (in_path->kind == http::Pattern::Kind::integer && options.type &&
          options.type->value != sql::ParameterType::integer) {
        complain(options.type->position, fmt::format("the path says {{{}:int}}", name));
      }
      return;
    }
    check_default(parameter.name, options);
  }

  void check_resident(api::resident::ResidentOptions& resident) {
    choose_database(resident.database, resident.position, "this resident table");
    check_use(resident.use);
    if (resident.cache_control) check_field_value(*resident.cache_control);
    const std::string path = "/" + resident.name.value;
    for (const std::string& shape : {path, path + "/{}"}) {
      if (shape != path && resident.key.value.empty()) continue;
      if (auto [other, is_new] = endpoints_.emplace(shape, resident.name.position); !is_new) {
        complain(resident.name.position, fmt::format("something else has the path {}", shape), again(other->second));
      }
    }
    config::check_resident(options_, resident, Complain{errors_});
  }

  void check_files(files::FilesOptions& files) {
    check_use(files.use);
    if (files.cache_control) check_field_value(*files.cache_control);
    std::string& path = files.path.value;
    if (path.empty()) return;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // "/docs/" and "/docs" are the same
    auto pattern = parse_path(files.path);
    if (!pattern) return;
    if (!pattern->names().empty()) {
      complain(files.path.position, "the path of files has no parameters", "everything below it is served");
    } else if (auto [other, is_new] = files_.emplace(shape_of(*pattern), files.path.position); !is_new) {
      complain(files.path.position, "other files have the same path", again(other->second));
    } else if (auto everything = endpoints_.find((path == "/" ? "" : shape_of(*pattern)) + "/{...}");
               everything != endpoints_.end()) {
      complain(files.path.position, "an endpoint takes every path below this one", again(everything->second));
    }
  }

  Options& options_;
  const Source& source_;
  const Environment& environment_;
  std::vector<Diagnostic>& errors_;
  std::map<std::string, Position> addresses_;
  std::map<std::string, Position> endpoints_;
  std::map<std::string, Position> files_;
};

}  // namespace

void check(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors) {
  Checker(options, source, environment, errors).run();
}

}  // namespace sluice::app::config
