#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "api/require.h"
#include "api/schema/schema.h"
#include "api/source.h"
#include "app/config/checks.h"
#include "app/config/paths.h"
#include "app/routes/endpoint/check_endpoint.h"
#include "app/routes/endpoint/choose_store.h"
#include "app/routes/endpoint/tables.h"
#include "app/routes/shape.h"
#include "base/contains.h"
#include "core/whole_file.h"
#include "sql/parameters.h"

namespace sluice::app {
namespace {

// Checks one [[endpoint]].
class EndpointCheck {
 public:
  EndpointCheck(config::Checks& checks, api::EndpointOptions& endpoint)
      : checks_(checks),
        complain_(checks.complain),
        endpoint_(endpoint),
        pattern_(http::Pattern::parse(endpoint.path.value).value_or(http::Pattern{})) {}

  void run() {
    checks_.choose_database(endpoint_.database, endpoint_.position, "this endpoint");
    checks_.check_use(endpoint_.use, endpoint_.path.value);
    for (const auto& [method, writing] : endpoint_.writing_methods()) {
      // Errors in the policies of the endpoint have been reported already.
      if (!checks_.has_errors()) checks_.check_use(writing->use, endpoint_.path.value);
    }
    check_role();
    check_requirements(endpoint_.require, all_uses());
    for (const auto& [method, writing] : endpoint_.writing_methods()) {
      check_requirements(writing->require, {&writing->use});
    }
    if (endpoint_.cache_control) checks_.check_field_value(*endpoint_.cache_control);
    (void)checks_.parse_path(endpoint_.path);
    if (endpoint_.path.value.size() > checks_.options.server.target_limit.value) {
      complain_(endpoint_.path.position, "no request reaches this path: it is longer than target_limit");
    }
    if (endpoint_.cache_control && endpoint_.get.value.empty()) {
      complain_(endpoint_.cache_control->position,
                "\"cache_control\" is for the answers of \"get\", which is not there");
    }
    if (endpoint_.parallel) config::check_parallel(checks_.options, endpoint_, pattern_, complain_);
    if (endpoint_.list) config::check_list(endpoint_, complain_);
    if (endpoint_.changes) check_changes();
    if (endpoint_.get.value.empty() && endpoint_.writing_methods().empty() && !endpoint_.changes &&
        !checks_.has_errors()) {
      complain_(endpoint_.position, "this endpoint answers no method",
                "add get = \"SELECT ...\", or post, put, patch, delete");
    }
    config::check_formats(endpoint_, complain_);
    config::check_version(endpoint_, complain_);
    config::check_errors(endpoint_.errors, complain_);
    config::check_limits_of_bodies(checks_.options, endpoint_, complain_);
    config::choose_stores(checks_.options, endpoint_, complain_);
    for (const auto& [method, writing] : endpoint_.writing_methods()) check_method(method, *writing);
    for (auto& parameter : endpoint_.params) {
      check_parameter(parameter);
      if (parameter.value.hash) check_password(parameter);
      check_source(parameter.value, uses_of(parameter.name.value));
    }
  }

 private:
  // The policies in front of several methods, one list for each.
  using Uses = std::vector<const std::vector<Located<std::string>>*>;

  [[nodiscard]] Uses all_uses() const {
    Uses uses;
    if (!endpoint_.get.value.empty() || endpoint_.changes) uses.push_back(&endpoint_.use);
    for (const auto& [method, writing] : endpoint_.writing_methods()) uses.push_back(&writing->use);
    return uses;
  }

  // The policies of the methods whose statements have the parameter; of all methods if no statement has it.
  [[nodiscard]] Uses uses_of(std::string_view parameter) const {
    Uses uses;
    if (mentions(endpoint_.get, parameter)) uses.push_back(&endpoint_.use);
    for (const auto& [method, writing] : endpoint_.writing_methods()) {
      if (takes(*writing, parameter)) uses.push_back(&writing->use);
    }
    return uses.empty() ? all_uses() : uses;
  }
  [[nodiscard]] static bool mentions(const Located<std::string>& text, std::string_view parameter) {
    const auto parsed = sql::parse_parameters(text.value, sql::PlaceholderStyle::dollar);
    return parsed && contains(parsed->names, parameter);
  }
  // Whether a statement of the method has the parameter.
  [[nodiscard]] static bool takes(const api::MethodOptions& writing, std::string_view parameter) {
    const auto has_it = [&](const Located<std::string>& text) { return mentions(text, parameter); };
    return std::ranges::any_of(writing.row_statements(), [&](const auto& one) { return has_it(*one.second); }) ||
           has_it(writing.sql) || has_it(writing.existing) || std::ranges::any_of(writing.before, has_it);
  }

  void check_password(const Named<api::ParamOptions>& parameter) {
    const std::string& name = parameter.name.value;
    const Position position = parameter.value.hash->position;
    if (contains(pattern_.names(), name)) {
      complain_(position, fmt::format("a password comes from a field of the body, and {{{}}} is in the path", name));
    }
    if (mentions(endpoint_.get, name)) {
      complain_(position, fmt::format("GET takes no password, and \"get\" has :{}", name));
    }
    for (const auto& [method, writing] : endpoint_.writing_methods()) {
      if (!takes(*writing, name)) continue;
      if (writing->is_set()) complain_(position, fmt::format("a set takes no password, and it has :{}", name));
      if (method == http::Method::delete_ && !parameter.value.from) {
        complain_(position,
                  fmt::format("a password comes from a field of the body, and DELETE takes :{} from the query "
                              "string",
                              name),
                  fmt::format("add from = \"body.{}\"", name));
      }
    }
  }

  [[nodiscard]] bool give_claims(const Uses& uses) const {
    return std::ranges::all_of(uses, [&](const auto* use) { return checks_.options.gives_claims(*use); });
  }

  // Without a policy that gives claims, no request would have a role, and all would be refused.
  void check_role() {
    const auto database = std::ranges::find(checks_.options.databases, endpoint_.database.value,
                                            [](const auto& one) -> const std::string& { return one.name.value; });
    if (database == checks_.options.databases.end() || database->value.is_sqlite() || !database->value.role) return;
    const auto source = api::parse_source(database->value.role->value);
    if (!source || source->from != api::From::claim || !database->value.anonymous_role.value.empty()) return;
    if (give_claims(all_uses())) return;
    complain_(endpoint_.position,
              fmt::format("[database.{}] takes its role from a claim, and no policy that gives claims is in front",
                          database->name.value),
              "add use = [\"NAME\"] and [policy.NAME], or anonymous_role to the database");
  }

  void check_changes() {
    if (!config::check_changes(checks_.options, endpoint_, complain_)) return;
    if (pattern_.segments.empty() || pattern_.segments.back().kind != http::Pattern::Kind::rest) return;
    complain_(endpoint_.changes->position, "a path that takes all that follows has no room for \"/changes\"");
  }

  void check_method(http::Method method, api::MethodOptions& writing) {
    config::check_writing(checks_.options, endpoint_, method, writing, complain_);
    const bool is_set = writing.is_set();
    for (auto& column : writing.columns) {
      check_source(column.value, {&writing.use});
      check_default(column.name, column.value);
      config::check_allowed(column.name.value, column.value, declared(column.value), complain_);
      config::check_hash(column.name.value, column.value, complain_);
      if (column.value.hash && (is_set || column.value.key)) {
        complain_(column.value.hash->position, is_set ? "a set takes no passwords" : "a password is not a key");
      }
      // A policy could check the parameter of the path while the body names a different row.
      const std::string& name = column.name.value;
      if (column.value.key && !column.value.from && method != http::Method::post &&
          std::ranges::count(pattern_.names(), name) != 0) {
        complain_(
            column.name.position,
            fmt::format("the key \"{}\" has no \"from\", and the path has a parameter of that name", name),
            fmt::format("add from = \"path.{0}\", or from = \"body.{0}\" if the body says which row is meant", name));
      }
      const auto source = config::source_of(column.value);
      if (source && source->from == api::From::upload && (is_set || method == http::Method::delete_)) {
        complain_(column.value.from->position, is_set ? "a set takes no files" : "DELETE takes no files");
      }
    }
  }

  void check_requirements(OneOrMore<api::RequireOptions>& require, const Uses& uses) {
    for (api::RequireOptions& one : require.items) {
      if (one.that.value.empty()) continue;  // reported when it was read
      if (one.status.value == 401) {
        complain_(one.status.position, "401 asks for credentials; only a policy answers with it");
      }
      const auto parsed = api::parse_requirement(one.that.value);
      const auto place = [&](std::size_t offset) {
        const auto before = std::string_view(one.that.value).substr(0, offset);
        return checks_.source.locate(one.that.position, config::count_characters(before) + 1);
      };
      if (!parsed) {
        complain_(place(parsed.error().offset), parsed.error().message);
        continue;
      }
      check_requirement(*parsed, place, one.environment, uses);
    }
  }

  [[nodiscard]] bool is_list(std::string_view source) const {
    return std::ranges::any_of(endpoint_.params, [&](const auto& param) {
      const std::string from = param.value.from ? param.value.from->value : "query." + param.name.value;
      return from == source && param.value.type && sql::is_list(param.value.type->value);
    });
  }

  template <class Place>
  void check_requirement(const api::Requirement& requirement, const Place& place,
                         std::map<std::string, std::string>& environment, const Uses& uses) {
    for (const api::Operand& operand : requirement.operands) {
      if (!operand.source) continue;
      api::ParamOptions options;
      options.from = Located<std::string>(operand.text, place(operand.offset));
      check_source(options, uses);
      if (options.environment) environment[operand.text] = *options.environment;
      if (options.environment && options.environment->empty()) {
        complain_(options.from->position, fmt::format("{} is empty", operand.text),
                  "a request may have an empty value too");
      }
      if (requirement.kind != api::Requirement::Kind::present && is_list(operand.text)) {
        complain_(options.from->position,
                  fmt::format("\"{}\" is a list, which nothing can be compared with", operand.text));
      }
    }
    if (!requirement.claims.empty()) {
      api::ParamOptions options;
      options.from = Located<std::string>("claim." + requirement.claims[0].second, place(requirement.offset));
      check_source(options, uses);
    }
    for (const api::Requirement& part : requirement.parts) check_requirement(part, place, environment, uses);
  }

  static std::optional<sql::ParameterType> declared(const api::ParamOptions& options) {
    return options.type ? std::optional(options.type->value) : std::nullopt;
  }

  void check_parameter(const Named<api::ParamOptions>& parameter) {
    const api::ParamOptions& options = parameter.value;
    const std::string& name = parameter.name.value;
    auto in_path = std::ranges::find_if(pattern_.segments, [&](const auto& segment) {
      return segment.kind != http::Pattern::Kind::literal && segment.text == name;
    });
    config::check_hash(name, options, complain_);
    const bool is_integer = in_path != pattern_.segments.end() && in_path->kind == http::Pattern::Kind::integer;
    config::check_allowed(name, options, is_integer ? sql::ParameterType::integer : declared(options), complain_);
    if (in_path != pattern_.segments.end()) {
      const auto source =
          options.from ? api::parse_source(options.from->value) : api::SourceName{api::From::path, name};
      if (source && (source->from != api::From::path || source->key != name)) {
        complain_(options.from->position, fmt::format("{{{}}} is in the path: its value there is never used", name),
                  "give one of them another name");
      }
      if (options.default_value) {
        complain_(options.default_value->position,
                  fmt::format("{{{}}} is in the path: its default is never used", name));
      }
      if (options.required.value) {
        complain_(options.required.position, fmt::format("{{{}}} is in the path: it is never missing", name));
      }
      if (is_integer && options.type && options.type->value != sql::ParameterType::integer) {
        complain_(options.type->position, fmt::format("the path says {{{}:int}}", name));
      }
      return;
    }
    check_default(parameter.name, options);
  }

  void check_default(const Located<std::string>& name, const api::ParamOptions& options) {
    if (options.default_value && options.required.value) {
      complain_(options.required.position, "a parameter with a default is never missing",
                "remove \"required\" or \"default\"");
    }
    if (options.default_value && options.type && sql::is_list(options.type->value)) {
      complain_(options.default_value->position, "a list has no default: without a value it is NULL");
    } else if (options.default_value && options.type &&
               !sql::fits(options.type->value, options.default_value->value.text)) {
      complain_(options.default_value->position, fmt::format("this does not fit the type of \"{}\"", name.value));
    }
  }

  // `uses`: of the methods that take the value.
  void check_source(api::ParamOptions& options, const Uses& uses) {
    if (!options.from) return;
    const auto& from = *options.from;
    const auto source = api::parse_source(from.value);
    if (!source) return;  // reported when it was read
    const auto names = pattern_.names();
    if (source->from == api::From::upload && options.default_value) {
      complain_(options.default_value->position, "a file has no default");
    }
    if (source->from == api::From::path && std::ranges::find(names, source->key) == names.end()) {
      complain_(from.position, fmt::format("there is no {{{}}} in the path", source->key));
    }
    if (source->from == api::From::claim && !give_claims(uses)) {
      complain_(from.position,
                "there are no claims without a policy of type \"jwt\", \"api-key\" or \"basic\" in front",
                "add use = [\"NAME\"] and [policy.NAME]");
    }
    const bool has_id =
        std::ranges::all_of(uses, [&](const auto* use) { return checks_.options.gives_request_id(*use); });
    if (source->from == api::From::request && !has_id) {
      complain_(from.position, "requests have no id without a policy with \"request_id\" in front",
                "add use = [\"NAME\"] and [policy.NAME]");
    }
    if (source->from != api::From::environment) return;
    options.environment = checks_.environment(source->key);
    if (!options.environment && !options.default_value) {
      complain_(from.position, fmt::format("the environment has no {}", source->key), "set it, or add a default");
    }
  }

  config::Checks& checks_;
  const config::Complain& complain_;
  api::EndpointOptions& endpoint_;
  const http::Pattern pattern_;  // empty if the path is invalid
};

void read_schema(const api::EndpointOptions& endpoint, Located<JsonOrFile>& schema, const config::Paths& paths) {
  auto& [json, file] = schema.value;
  if (!file.empty()) {
    const std::string path = paths.of(file, schema.position);
    auto text = core::read_whole_file(path, config::largest_file);
    if (!text) {
      paths.errors.push_back(
          {schema.position, fmt::format("the schema {}", text.error()), fmt::format("it would be {}", path)});
      return;
    }
    json = std::move(*text);
  }
  const auto parsed = api::schema::Schema::parse(json);
  if (parsed) return;
  for (const auto& [pointer, reason] : parsed.error()) {
    paths.errors.push_back(
        {schema.position, fmt::format("endpoint \"{}\": the schema{}{}{}{}: {}", endpoint.path.value,
                                      file.empty() ? "" : " ", file, pointer.empty() ? "" : ", at ", pointer, reason)});
  }
}

}  // namespace

void EndpointTables::resolve(Options& options, const config::Paths& paths) {
  for (auto& endpoint : options.endpoints) {
    for (const auto& [method, writing] : endpoint.writing_methods()) {
      if (writing->schema) read_schema(endpoint, *writing->schema, paths);
    }
  }
}

void config::check_endpoint(Checks& checks, api::EndpointOptions& endpoint) {
  if (endpoint.formats.empty() && answers_with_rows(endpoint)) endpoint.formats = checks.options.defaults.formats;
  EndpointCheck(checks, endpoint).run();
}

void EndpointTables::check(config::Checks& checks) {
  for (auto& endpoint : checks.options.endpoints) config::check_endpoint(checks, endpoint);
}

std::vector<Shape> EndpointTables::shapes(const api::EndpointOptions& options) {
  std::vector<Shape> shapes;
  Shape methods{.path = options.path.value,
                .host = options.host.value,
                .position = options.path.position,
                .use = options.use,
                .methods = {},
                .formats = options.returns != api::Returns::file};
  if (!options.get.value.empty()) methods.methods.push_back(http::Method::get);
  for (const auto& [method, writing] : options.writing_methods()) {
    methods.methods.push_back(method);
    methods.of_methods.emplace_back(method, writing->use);
  }
  if (!methods.methods.empty()) shapes.push_back(std::move(methods));
  if (options.changes) {
    shapes.push_back({.path = (options.path.value == "/" ? "" : options.path.value) + "/changes",
                      .host = options.host.value,
                      .position = options.changes->position,
                      .use = options.use});
  }
  return shapes;
}

}  // namespace sluice::app
