#include "app/config/checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "app/config/check_server.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "base/contains.h"
#include "gateway/limits/key.h"

namespace sluice::app::config {
namespace {

constexpr const char* wants_claims = "put a policy of type \"jwt\", \"api-key\" or \"basic\" before it";

}  // namespace

void Checks::check_field_value(const Located<std::string>& field) const {
  config::check_field_value(field, source, complain);
}

// The values that a limit counts by must exist: claims need an earlier policy that gives them, and parameters must be
// in the path.
void Checks::check_limit(const Located<std::string>& used, const gateway::PolicyOptions& policy, bool has_claims,
                         std::string_view path) const {
  // Only one of the two lists can have items, because a policy has one type.
  std::vector<std::string> per = policy.of<gateway::limits::RateLimitOptions>().per.items;
  if (const std::string& claim = policy.of<gateway::limits::RateLimitOptions>().rate_claim; !claim.empty()) {
    per.push_back("claim." + claim);
  }
  per.insert(per.end(), policy.of<gateway::limits::ConcurrencyOptions>().per.items.begin(),
             policy.of<gateway::limits::ConcurrencyOptions>().per.items.end());
  for (const auto& [from, name] : gateway::limits::parse_key_parts(per)) {
    using From = gateway::limits::KeyPart::From;
    if (from == From::claim && !has_claims) {
      complain(used.position,
               fmt::format("[policy.{}] counts by a claim, and no policy before it gives any", used.value),
               wants_claims);
    } else if (from == From::path) {
      check_in_path(used, fmt::format("counts by {{{}}}", name), name, path);
    }
  }
}

// As check_limit(), for the placeholders in the values of a policy.
void Checks::check_templates(const Located<std::string>& used, const gateway::PolicyOptions& policy, bool has_claims,
                             std::string_view path) const {
  using gateway::Template;
  std::vector<Template> templates;
  policy.visit([&](const auto& of_type) {
    if constexpr (requires { of_type.templates(); }) templates = of_type.templates();
  });
  const auto uses_claim = [](const Template& value) { return value.uses(Template::Source::claim); };
  if (!has_claims && std::ranges::any_of(templates, uses_claim)) {
    complain(used.position, fmt::format("[policy.{}] uses claims, and no policy before it gives any", used.value),
             wants_claims);
  }
  for (const Template& value : templates) {
    for (const std::string& name : value.path_names()) {
      check_in_path(used, fmt::format("uses {{path.{}}}", name), name, path);
    }
  }
}

// Complains if a policy needs a value of the path that the route's path does not have.
void Checks::check_in_path(const Located<std::string>& used, const std::string& need, const std::string& name,
                           std::string_view path) const {
  const auto pattern = http::Pattern::parse(path);
  if (!pattern && !path.empty()) return;  // another error
  const auto names = pattern ? pattern->names() : std::vector<std::string>();
  if (contains(names, name)) return;
  complain(used.position, fmt::format("[policy.{}] {}, which is not in the path", used.value, need),
           did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end())));
}

void Checks::check_use(const std::vector<Located<std::string>>& use, std::string_view path, bool passes_on) const {
  std::vector<std::string_view> names;
  for (const auto& policy : options.policies) names.push_back(policy.name.value);
  std::map<std::string_view, Position> before;
  std::set<gateway::PolicyType> types;
  const Located<std::string>* claims_from = nullptr;
  const auto is_default = [&](const Located<std::string>& name) {
    return std::ranges::find(options.defaults.use, name.position, &Located<std::string>::position) !=
           options.defaults.use.end();
  };
  for (const auto& name : use) {
    const auto index = options.find_policy(name.value);
    if (!index) {
      complain(name.position, fmt::format("there is no [policy.{}]", name.value), did_you_mean(name.value, names));
      continue;
    }
    if (auto [other, is_new] = before.emplace(name.value, name.position); !is_new) {
      complain(name.position, fmt::format("\"{}\" comes twice", name.value));
      continue;
    }
    const gateway::PolicyOptions& policy = options.policies[*index].value;
    const gateway::PolicyType type = policy.type.value;
    const bool is_first = types.insert(type).second;
    const bool has_claims = std::ranges::any_of(types, gateway::gives_claims);
    if (gateway::kind_of(type).is_limit) {
      check_limit(name, policy, has_claims, path);
      if (!passes_on && policy.of<gateway::limits::BodyLimitOptions>().size > options.server.body_limit) {
        complain(name.position,
                 fmt::format("[policy.{}] allows longer bodies than [server]; it can be used only by a [[route]]",
                             name.value),
                 "\"body_limit\" of [[endpoint]] may be longer");
      }
    } else if (!is_first &&
               !gateway::kind_of(type).may_repeat) {  // with two, it is unclear which claims or origins apply
      complain(name.position, fmt::format("a route uses one policy of type \"{}\" at most", name_of_value(type)),
               std::string(gateway::kind_of(type).instead));
    } else if (is_first && gateway::gives_claims(type) && claims_from != nullptr) {
      const bool only_first_is_default = is_default(*claims_from) && !is_default(name);
      complain(name.position,
               fmt::format("a route takes its claims from one policy, not from \"{}\" and \"{}\"", claims_from->value,
                           name.value),
               only_first_is_default
                   ? fmt::format("\"{}\" is from [defaults], which do not apply with public = true", claims_from->value)
                   : "");
    }
    if (gateway::gives_claims(type) && claims_from == nullptr) claims_from = &name;
    check_templates(name, policy, has_claims, path);
  }
}

std::optional<http::Pattern> Checks::parse_path(const Located<std::string>& path) const {
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
    complain(source.locate(path.position, character), std::move(wrong));
    return {};
  }
  if (const auto colon = path.value.find("/:"); colon != std::string::npos) {
    complain(source.locate(path.position, count_characters(path.value.substr(0, colon)) + 2),
             "a part of a path does not begin with \":\"", "a parameter is written {name}");
    return {};
  }
  auto pattern = http::Pattern::parse(path.value);
  if (pattern) return std::move(*pattern);
  complain(path.position, fmt::format("not a path: {}", pattern.error()));
  return {};
}

void Checks::choose_database(Located<std::string>& database, Position position, std::string_view whose) const {
  std::vector<std::string_view> names;
  for (const auto& one : options.databases) names.push_back(one.name.value);
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

const sql::DatabaseOptions* Checks::database_of(std::string_view name) const {
  const auto found =
      std::ranges::find(options.databases, name, [](const auto& one) -> std::string_view { return one.name.value; });
  return found == options.databases.end() ? nullptr : &found->value;
}

void Checks::check_upstream(const Located<std::string>& name) const {
  if (options.find_upstream(name.value)) return;
  std::vector<std::string_view> names;
  for (const auto& upstream : options.upstreams) names.push_back(upstream.name.value);
  complain(name.position, fmt::format("there is no [[upstream]] called \"{}\"", name.value),
           did_you_mean(name.value, names));
}

void Checks::check_table(const Located<std::string>& name, std::string_view key) const {
  const auto table = std::ranges::find(options.residents, name.value,
                                       [](const auto& one) -> const std::string& { return one.name.value; });
  if (table == options.residents.end()) {
    std::vector<std::string_view> names;
    for (const auto& resident : options.residents) names.push_back(resident.name.value);
    complain(name.position, fmt::format("there is no [[resident]] called \"{}\"", name.value),
             did_you_mean(name.value, names));
  } else if (table->key.value.empty()) {
    complain(name.position, fmt::format("\"{}\" has no \"key\"", name.value), fmt::format("the key is {}", key));
  } else if (!table->refresh) {
    complain(name.position,
             fmt::format("\"{}\" is never refreshed: a change of its rows would not reach the policy", name.value),
             "add \"refresh\" to the [[resident]]");
  }
}

}  // namespace sluice::app::config
