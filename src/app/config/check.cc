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
#include "app/config/check_route.h"
#include "app/config/check_server.h"
#include "app/config/choose_store.h"
#include "app/config/complain.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "app/listen.h"
#include "base/contains.h"
#include "core/address.h"
#include "gateway/basic/password.h"
#include "gateway/headers/policy.h"
#include "gateway/proxy/upstream.h"
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
    // Port 0 asks for a new port each time, so it may be used twice.
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

  // Without a policy that gives claims, no request would have a role, and all would be refused.
  void check_role_of(const api::EndpointOptions& endpoint) {
    const auto database = std::ranges::find(options_.databases, endpoint.database.value,
                                            [](const auto& one) -> const std::string& { return one.name.value; });
    if (database == options_.databases.end() || database->value.is_sqlite() || !database->value.role) return;
    const auto source = api::parse_source(database->value.role->value);
    if (!source || source->from != api::From::claim || !database->value.anonymous_role.value.empty()) return;
    if (options_.gives_claims(endpoint.use)) return;
    complain(endpoint.position,
             fmt::format("[database.{}] takes its role from a claim, and no policy that gives claims is in front",
                         database->name.value),
             "add use = [\"NAME\"] and [policy.NAME], or anonymous_role to the database");
  }

  void check_policy(const Named<gateway::PolicyOptions>& policy) {
    policy.value.visit([&](const auto& options) { check_kind(policy.name, options); });
  }
  // A kind whose options need no check beyond those of their declaration.
  void check_kind(const Located<std::string>& /*name*/, const auto& /*options*/) {}

  void check_kind(const Located<std::string>& name, const gateway::cors::Options& options) {
    const auto any = std::ranges::find(options.origins, "*", &Located<std::string>::value);
    if (any != options.origins.end() && options.credentials) {
      complain(any->position,
               fmt::format("[policy.{}] has \"credentials\", with which browsers do not accept the origin \"*\"",
                           name.value),
               "name the origins");
    }
    for (const auto& header : options_.server.headers) {
      if (!http::same_name(header.name.value.substr(0, 15), "access-control-")) continue;
      complain(header.name.position, fmt::format("[policy.{}] gives answers this field too", name.value),
               "leave it to the policy");
    }
  }

  void check_kind(const Located<std::string>& policy, const gateway::ip::Options& options) {
    if (!options.allow.empty() || !options.deny.empty() || !errors_.empty()) return;
    complain(policy.position, fmt::format("[policy.{}] names no addresses", policy.value), "add \"allow\" or \"deny\"");
  }

  void check_kind(const Located<std::string>& policy, const gateway::apikey::Options& options) {
    int places = options.header.position.line != 0 ? 1 : 0;
    places += (options.query ? 1 : 0) + (options.cookie ? 1 : 0);
    if (places > 1) {
      complain(policy.position,
               fmt::format("[policy.{}] has more than one of \"header\", \"query\" and \"cookie\"", policy.value));
    }
    if (!options.keys.empty() && options.table) {
      complain(options.table->position, fmt::format("[policy.{}] has \"keys\" as well", policy.value));
    } else if (options.keys.empty() && !options.table && errors_.empty()) {
      complain(policy.position, fmt::format("[policy.{}] has no keys", policy.value), "add \"keys\" or \"table\"");
    }
    std::vector<std::pair<gateway::Digest, std::string_view>> digests;
    for (const auto& key : options.keys) {
      // The error is not reported at the value's position, because an error prints its line and the value may be a
      // secret.
      if (key.value.value.empty()) continue;  // reported when it was read
      const auto digest = gateway::apikey::parse_key(key.value.value);
      if (!digest) {
        complain(policy.position, fmt::format("the key of \"{}\" {}", key.name.value, digest.error()));
        continue;
      }
      const auto same = std::ranges::find(digests, *digest, &std::pair<gateway::Digest, std::string_view>::first);
      if (same != digests.end()) {
        complain(policy.position, fmt::format("\"{}\" and \"{}\" have the same key", same->second, key.name.value));
      }
      digests.emplace_back(*digest, key.name.value);
    }
    if (!options.table) return;
    const auto table = std::ranges::find(options_.residents, options.table->value,
                                         [](const auto& one) -> const std::string& { return one.name.value; });
    if (table == options_.residents.end()) {
      std::vector<std::string_view> names;
      for (const auto& resident : options_.residents) names.push_back(resident.name.value);
      complain(options.table->position, fmt::format("there is no [[resident]] called \"{}\"", options.table->value),
               did_you_mean(options.table->value, names));
    } else if (table->key.value.empty()) {
      complain(options.table->position, fmt::format("\"{}\" has no \"key\"", options.table->value),
               "the key is the column with the digests");
    }
  }

  void check_kind(const Located<std::string>& policy, const gateway::basic::Options& options) {
    if (options.users.empty() && errors_.empty()) {
      complain(policy.position, fmt::format("[policy.{}] has no users", policy.value),
               "add users = { NAME = \"HASH\" }; `sluice hash-password` prints a hash");
    }
    for (const auto& user : options.users) {
      if (user.value.hash.empty()) continue;  // reported when it was read
      const std::string wrong = gateway::basic::check_hash(user.value.hash);
      // The error is not reported at the value's position, because an error prints its line and the value may be a
      // password.
      if (!wrong.empty()) complain(policy.position, fmt::format("the hash of \"{}\" {}", user.name.value, wrong));
      if (user.name.value.contains(':')) complain(user.name.position, "the name of a user has no \":\"");
    }
  }

  void check_kind(const Located<std::string>&, const gateway::authrequest::Options& options) {
    if (!options.upstream.value.empty()) {
      check_upstream(options_, options.upstream.value, options.upstream.position, Complain{errors_});
    }
    for (const auto& name : options.copy) {
      if (!gateway::headers::may_change_in_request(name.value)) complain(name.position, "no policy changes this field");
    }
  }

  void check_changes_of_fields(const gateway::headers::Options& options,
                               const std::optional<gateway::headers::ChangeOptions>& changes,
                               bool (*may_change)(std::string_view)) {
    if (!changes) return;
    std::vector<std::string_view> replaced;
    const auto check = [&](const Located<std::string>& name, bool replaces) {
      const auto same = [&](std::string_view other) { return http::same_name(other, name.value); };
      if (!http::is_token(name.value)) {
        complain(name.position, "not the name of a header field");
      } else if (!may_change(name.value)) {
        complain(name.position, "no policy changes this field");
      } else if (options.request_id && same("x-request-id")) {
        complain(name.position, "\"request_id\" sets this field");
      } else if (replaces && std::ranges::any_of(replaced, same)) {
        complain(name.position, "this field comes twice");
      } else if (replaces) {
        replaced.push_back(name.value);
      }
    };
    for (const auto& field : changes->set) check(field.name, true);
    for (const auto& name : changes->remove) check(name, true);
    for (const auto& field : changes->add) check(field.name, false);
    if (changes->set.empty() && changes->add.empty() && changes->remove.empty() && errors_.empty()) {
      complain(changes->position, "nothing is changed here", "add \"set\", \"add\" or \"remove\"");
    }
  }

  void check_kind(const Located<std::string>& policy, const gateway::headers::Options& options) {
    if (!options.request && !options.response && !options.request_id && errors_.empty()) {
      complain(policy.position, fmt::format("[policy.{}] changes nothing", policy.value),
               "add \"request\", \"response\" or \"request_id\"");
    }
    check_changes_of_fields(options, options.request, gateway::headers::may_change_in_request);
    check_changes_of_fields(options, options.response, gateway::headers::may_change_in_response);
    if (!options.response) return;
    const auto check = [&](const Located<std::string>& name) {
      const auto same = [&](const auto& header) { return http::same_name(header.name.value, name.value); };
      if (std::ranges::none_of(options_.server.headers, same)) return;
      complain(name.position, "[server.headers] adds this field to all answers, after the policies");
    };
    for (const auto& field : options.response->set) check(field.name);
    for (const auto& name : options.response->remove) check(name);
  }

  void check_kind(const Located<std::string>& policy, const gateway::jwt::Options& options) {
    const std::optional<Located<std::string>>* first = nullptr;
    const std::pair<const char*, const std::optional<Located<std::string>>*> keys[] = {
        {"secret", &options.secret},
        {"secret_file", &options.secret_file},
        {"public_key", &options.public_key},
        {"jwks", &options.jwks},
        {"jwks_url", &options.jwks_url}};
    for (const auto& [name, key] : keys) {
      if (!*key) continue;
      // The error is not reported at the key's position, because an error prints its line, which may show a secret.
      if (first != nullptr) {
        complain(policy.position, fmt::format("[policy.{}] has more than one of \"secret\", \"secret_file\", "
                                              "\"public_key\", \"jwks\" and \"jwks_url\"",
                                              policy.value));
        break;
      }
      first = key;
    }
    if (options.jwks && (options.jwks->value.starts_with("https://") || options.jwks->value.starts_with("http://"))) {
      complain(options.jwks->position, "\"jwks\" is the path of a file", "write \"jwks_url\"");
    }
    const std::pair<const char*, Position> of_url[] = {{"jwks_every", options.jwks_every.position},
                                                       {"jwks_timeout", options.jwks_timeout.position},
                                                       {"jwks_ca", options.jwks_ca.position}};
    for (const auto& [name, position] : of_url) {
      if (position.line == 0 || options.jwks_url) continue;
      complain(position, fmt::format("[policy.{}] fetches no keys", policy.value),
               fmt::format("\"{}\" is for \"jwks_url\"", name));
    }
    for (const gateway::jwt::RequireOptions& required : options.require) {
      if (required.any.empty() && required.all.empty() && errors_.empty()) {
        complain(required.position,
                 fmt::format("[policy.{}] requires no words of the claim \"{}\"", policy.value, required.claim.value),
                 "add \"any\" or \"all\"");
      }
      for (const auto* words : {&required.any, &required.all}) {
        for (const auto& word : *words) {
          const bool is_word = gateway::jwt::Options::check_realm(word.value).empty() && !word.value.contains(' ');
          if (required.is_scope() && !is_word) {
            complain(word.position, "a scope is printable ASCII without spaces, quotes and backslashes");
          }
        }
      }
    }
    if (first == nullptr && errors_.empty()) {  // after other errors, the key may be present but wrong
      complain(policy.position, fmt::format("[policy.{}] has no key to verify tokens with", policy.value),
               "add \"secret\", \"secret_file\", \"public_key\", \"jwks\" or \"jwks_url\"");
    }
  }

  static constexpr const char* wants_claims = "put a policy of type \"jwt\", \"api-key\" or \"basic\" before it";

  // The values that a limit counts by must exist: claims need an earlier policy that gives them, and parameters must be
  // in the path.
  void check_limit(const Located<std::string>& used, const gateway::PolicyOptions& policy, bool has_claims,
                   std::string_view path) {
    const auto pattern = http::Pattern::parse(path);
    const auto names = pattern ? pattern->names() : std::vector<std::string>();
    // Only one of the two lists can have items, because a policy has one type.
    std::vector<std::string> per = policy.of<gateway::limits::RateLimitOptions>().per.items;
    per.insert(per.end(), policy.of<gateway::limits::ConcurrencyOptions>().per.items.begin(),
               policy.of<gateway::limits::ConcurrencyOptions>().per.items.end());
    for (const auto& [from, name] : gateway::limits::parse_key_parts(per)) {
      using From = gateway::limits::KeyPart::From;
      if (from == From::claim && !has_claims) {
        complain(used.position,
                 fmt::format("[policy.{}] counts by a claim, and no policy before it gives any", used.value),
                 wants_claims);
      } else if (from == From::path && (pattern || path.empty()) && !contains(names, name)) {
        complain(used.position, fmt::format("[policy.{}] counts by {{{}}}, which is not in the path", used.value, name),
                 did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end())));
      }
    }
  }

  // `path`: the route's path, if it may have parameters. `passes_on`: whether the route forwards bodies without
  // buffering them.
  void check_use(const std::vector<Located<std::string>>& use, std::string_view path = {}, bool passes_on = false) {
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
      const gateway::PolicyType type = options_.policies[*index].value.type.value;
      const bool is_first = types.insert(type).second;
      if (gateway::kind_of(type).is_limit) {
        check_limit(name, options_.policies[*index].value, std::ranges::any_of(types, gateway::gives_claims), path);
        if (!passes_on &&
            options_.policies[*index].value.of<gateway::limits::BodyLimitOptions>().size > options_.server.body_limit) {
          complain(name.position,
                   fmt::format("[policy.{}] allows longer bodies than [server]; it can be used only by a [[route]]",
                               name.value),
                   "\"body_limit\" of [[endpoint]] may be longer");
        }
      } else if (!is_first &&
                 !gateway::kind_of(type).may_repeat) {  // with two, it is unclear which claims or origins apply
        complain(name.position, fmt::format("a route uses one policy of type \"{}\" at most", name_of_value(type)));
      } else if (is_first && gateway::gives_claims(type) && std::ranges::count_if(types, gateway::gives_claims) > 1) {
        complain(name.position, "a route takes its claims from one policy");
      }
      if (type == gateway::policy_type<gateway::headers::Options> &&
          std::ranges::none_of(types, gateway::gives_claims) &&
          options_.policies[*index].value.of<gateway::headers::Options>().uses_claims()) {
        complain(name.position, fmt::format("[policy.{}] uses claims, and no policy before it gives any", name.value),
                 wants_claims);
      }
    }
  }

  void check_endpoint(api::EndpointOptions& endpoint) {
    choose_database(endpoint.database, endpoint.position, "this endpoint");
    check_use(endpoint.use, endpoint.path.value);
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
      if (auto [other, is_new] = endpoints_.emplace(shape_of(pattern, endpoint.host), endpoint.path.position);
          !is_new) {
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
      // A policy could check the parameter of the path while the body names a different row.
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
      if (one.that.value.empty()) continue;  // reported when it was read
      if (one.status.value == 401) {
        complain(one.status.position, "401 asks for credentials; only a policy answers with it");
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
        complain(options.from->position, fmt::format("{} is empty", operand.text),
                 "a request may have an empty value too");
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
    if (!source) return;  // reported when it was read
    const auto names = pattern.names();
    if (source->from == api::From::upload && options.default_value) {
      complain(options.default_value->position, "a file has no default");
    }
    if (source->from == api::From::path && std::ranges::find(names, source->key) == names.end()) {
      complain(from.position, fmt::format("there is no {{{}}} in the path", source->key));
    }
    if (source->from == api::From::claim && !options_.gives_claims(endpoint.use)) {
      complain(from.position, "there are no claims without a policy of type \"jwt\", \"api-key\" or \"basic\" in front",
               "add use = [\"NAME\"] and [policy.NAME]");
    }
    if (source->from != api::From::environment) return;
    options.environment = environment_(source->key);
    if (!options.environment && !options.default_value) {
      complain(from.position, fmt::format("the environment has no {}", source->key), "set it, or add a default");
    }
  }

  void check_websocket(const ws::WebSocketOptions& websocket) {
    check_use(websocket.use, websocket.path.value);
    if (options_.uses(websocket.use, gateway::policy_type<gateway::cors::Options>)) {
      complain(websocket.path.position, "a policy of type \"cors\" has no effect on a websocket",
               "\"origins\" of [[websocket]] says whose pages may connect");
    }
    if (websocket.max_frame && websocket.max_frame->value > websocket.max_message) {
      complain(websocket.max_frame->position, "\"max_frame\" is larger than \"max_message\"");
    }
    const auto pattern = parse_path(websocket.path);
    if (!pattern) return;
    if (auto [other, is_new] = endpoints_.emplace(shape_of(*pattern, websocket.host), websocket.path.position);
        !is_new) {
      complain(websocket.path.position, "an endpoint or another websocket has the same path", again(other->second));
    }
  }

  void check_upstreams() {
    std::map<std::string_view, Position> names;
    for (const auto& upstream : options_.upstreams) {
      if (auto [other, is_new] = names.emplace(upstream.name.value, upstream.name.position); !is_new) {
        complain(upstream.name.position, "another upstream has the same name", again(other->second));
      }
      std::map<std::string, Position> servers;
      for (const auto& [url, weight] : upstream.servers) {
        const auto origin = gateway::parse_server(url.value);
        if (!origin) continue;
        const std::string server = gateway::SharedUpstream::name_of(*origin);
        if (auto [other, is_new] = servers.emplace(server, url.position); !is_new) {
          complain(url.position, "this server comes twice", again(other->second));
        }
      }
      if (upstream.tls) check_upstream_tls(upstream, *upstream.tls);
      check_balance(upstream);
      if (!upstream.retry_on.value.empty() && upstream.retries == 0) {
        complain(upstream.retry_on.position, "\"retry_on\" is for \"retries\" above 0");
      }
      if (upstream.eject.time.value > upstream.eject.longest) {
        complain(upstream.eject.time.position, "an ejection would last longer than \"longest\" allows",
                 fmt::format("\"longest\" is {}", format_duration(upstream.eject.longest)));
      }
    }
  }

  void check_balance(const gateway::UpstreamOptions& upstream) {
    const bool is_hash = upstream.balance.value == gateway::Balance::hash;
    const bool has_key = upstream.hash.position.line != 0;
    if (is_hash && !has_key) {
      complain(upstream.balance.position, "balance = \"hash\" needs the key \"hash\"",
               "add hash = \"client\", or another value");
    }
    if (!is_hash && has_key) {
      complain(upstream.hash.position, "\"hash\" is for balance = \"hash\"");
    }
    if (!is_hash || !upstream.hash.value.starts_with("claim.")) return;
    for (const auto& route : options_.routes) {
      if (!route.passes_to(upstream.name.value)) continue;
      if (options_.gives_claims(route.use)) continue;
      complain(upstream.hash.position, "requests of a route to this upstream have no claims",
               fmt::format("route \"{}\" needs a policy of type \"jwt\", \"api-key\" or \"basic\"", route.path.value));
    }
  }

  void check_upstream_tls(const gateway::UpstreamOptions& upstream, const gateway::UpstreamTlsOptions& tls) {
    if (!upstream.is_secure()) {
      complain(tls.position, "no server of this upstream speaks TLS", "write \"https://...\" for one");
    }
    if (!tls.cert.value.empty() && tls.key.value.empty()) complain(tls.cert.position, "\"cert\" needs its \"key\"");
    if (!tls.key.value.empty() && tls.cert.value.empty()) complain(tls.key.position, "\"key\" needs its \"cert\"");
    if (!tls.ca.value.empty() && !tls.verify.value) {
      complain(tls.ca.position, "\"ca\" is used only where certificates are verified", "leave out \"verify = false\"");
    }
  }

  void check_route(const gateway::RouteOptions& route) {
    check_use(route.use, route.path.value, true);
    const auto pattern = parse_path(route.path);
    if (!pattern) return;
    config::check_route(options_, route, *pattern, Complain{errors_});
    const std::string shape = shape_of(*pattern, route.host);
    auto& alternatives = routes_[shape];
    for (const gateway::RouteOptions* other : alternatives) {
      if (!are_alike(*other, route)) continue;
      complain(route.path.position, "another route has the same path, and a request could be for both",
               again(other->path.position) + "; \"methods\", \"headers\" or \"query\" can tell them apart");
    }
    alternatives.push_back(&route);
    if (alternatives.size() > 1) return;
    if (auto [other, is_new] = endpoints_.emplace(shape, route.path.position); !is_new) {
      complain(route.path.position, "something else has the same path", again(other->second));
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

  // Policies of type "api-key" and "basic" without `pass` remove the credentials from an accepted batch request, so the
  // calls in it have no credentials.
  void check_batch_keeps_keys(const Located<std::string>& name) {
    const auto index = options_.find_policy(name.value);
    if (!index) return;
    const gateway::PolicyOptions& policy = options_.policies[*index].value;
    const gateway::PolicyType type = policy.type.value;
    const bool takes_off = (policy.is<gateway::apikey::Options>() && !policy.of<gateway::apikey::Options>().pass) ||
                           (policy.is<gateway::basic::Options>() && !policy.of<gateway::basic::Options>().pass);
    if (!takes_off) return;
    for (const api::EndpointOptions& endpoint : options_.endpoints) {
      if (!options_.uses(endpoint.use, type)) continue;
      complain(name.position,
               fmt::format("[policy.{}] removes the credentials of a batch, but its calls of {} need them", name.value,
                           endpoint.path.value),
               "leave it out here: the policies of each call apply; or add pass = true to the policy");
      return;
    }
  }

  void check_batch(api::batch::Options& batch) {
    check_use(batch.use);
    for (const auto& name : batch.use) check_batch_keeps_keys(name);
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
      complain(batch.retries.position, "\"retries\" is for PostgreSQL: SQLite has one writer at a time; others wait");
    }
    const auto called = [&](const api::EndpointOptions& endpoint) {
      return endpoint.database.value == batch.database.value;
    };
    if (errors_.empty() && std::ranges::none_of(options_.endpoints, called)) {
      complain(batch.position, fmt::format("no endpoint of the database \"{}\" could be called", batch.database.value));
    }
  }

  // Returns nothing if an error has been reported.
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

  // Two patterns have the same shape if they match the same paths of the same host.
  static std::string shape_of(const http::Pattern& pattern, const std::string& host = {}) {
    std::string shape = host;
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
      const auto source =
          options.from ? api::parse_source(options.from->value) : api::SourceName{api::From::path, name};
      if (source && (source->from != api::From::path || source->key != name)) {
        complain(options.from->position, fmt::format("{{{}}} is in the path: its value there is never used", name),
                 "give one of them another name");
      }
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
    check_resident_of_policies(resident);
    if (!resident.serve.value) return config::check_resident(options_, resident, Complain{errors_});
    const std::string path = resident.host.value + "/" + resident.name.value;
    for (const std::string& shape : {path, path + "/{}"}) {
      if (shape != path && resident.key.value.empty()) continue;
      if (auto [other, is_new] = endpoints_.emplace(shape, resident.name.position); !is_new) {
        complain(resident.name.position, fmt::format("something else has the path {}", shape), again(other->second));
      }
    }
    config::check_resident(options_, resident, Complain{errors_});
  }

  // Clients must not be able to read tables of keys.
  void check_resident_of_policies(const api::resident::ResidentOptions& resident) {
    const bool has_keys = std::ranges::any_of(options_.policies, [&](const auto& policy) {
      const auto& table = policy.value.template of<gateway::apikey::Options>().table;
      return table && table->value == resident.name.value;
    });
    if (has_keys && resident.serve.value && resident.use.empty()) {
      complain(resident.name.position,
               fmt::format("\"{}\" has the keys of a policy, and everybody could read it at /{}", resident.name.value,
                           resident.name.value),
               "add serve = false, or use = [\"NAME\"]");
    } else if (!has_keys && !resident.serve.value && errors_.empty()) {
      complain(resident.serve.position, fmt::format("nothing reads \"{}\"", resident.name.value),
               "remove serve = false, or name it in a policy");
    } else if (!resident.serve.value && !resident.use.empty()) {
      complain(resident.use.front().position, "a table without a path has no use for policies");
    }
  }

  void check_files(files::FilesOptions& files) {
    check_use(files.use);
    if (files.cache_control) check_field_value(*files.cache_control);
    std::string& path = files.path.value;
    if (path.empty()) return;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // "/docs/" and "/docs" are equal
    auto pattern = parse_path(files.path);
    if (!pattern) return;
    if (!pattern->names().empty()) {
      complain(files.path.position, "the path of files has no parameters", "everything below it is served");
    } else if (auto [other, is_new] = files_.emplace(shape_of(*pattern, files.host), files.path.position); !is_new) {
      complain(files.path.position, "other files have the same path", again(other->second));
    } else if (auto everything =
                   endpoints_.find((path == "/" ? files.host.value : shape_of(*pattern, files.host)) + "/{...}");
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
  std::map<std::string, std::vector<const gateway::RouteOptions*>> routes_;  // by shape
};

}  // namespace

void check(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors) {
  Checker(options, source, environment, errors).run();
}

}  // namespace sluice::app::config
