#include "api/role.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/utf8.h"
#include "http/identity.h"
#include "http/request_id.h"

namespace sluice::api {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

// The payload with its members sorted by name.
std::string json_of(const http::Claims& claims) {
  std::string json = "{";
  for (const http::Claim& claim : claims.all()) {
    if (claim.depth != 1) continue;
    if (json.size() != 1) json += ',';
    append_quoted(json, claim.path);
    json += ':';
    if (claim.kind == http::Claim::Kind::string) {
      append_quoted(json, claim.text);
    } else {
      json += claim.text;
    }
  }
  return json += '}';
}

Source source_of_setting(std::string_view name, std::string_view from, const std::optional<std::string>& environment) {
  auto named = *parse_source(from);
  Source source;
  source.name = name;
  source.from = named.from;
  source.key = std::move(named.key);
  source.default_text = environment;
  return source;
}

}  // namespace

std::string check_role(std::string_view source) {
  const auto parsed = parse_source(source);
  if (!parsed) return parsed.error();
  switch (parsed->from) {
    case From::claim:
    case From::header:
    case From::environment:
      return {};
    default:
      return "must begin with claim, header or env: clients choose the others as they like";
  }
}

std::string check_setting(std::string_view name, std::string_view source) {
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  if (!is_name) return "is not the name of a setting: letters, digits, underscores and dots";
  const std::string lower = to_lower(name);
  if (lower == "role" || lower == "session_authorization") return "is set by [database.NAME] \"role\"";
  if (lower.starts_with("request.")) return "begins with \"request.\", whose settings Sluice makes itself";
  const auto parsed = parse_source(source);
  if (!parsed) return parsed.error();
  switch (parsed->from) {
    case From::claim:
    case From::header:
    case From::cookie:
    case From::environment:
    case From::request:
      return {};
    default:
      return "must begin with claim, header, cookie, env or request";
  }
}

std::shared_ptr<const RolePlan> role_plan(const sql::DatabaseOptions& options) {
  if (!options.role && options.anonymous_role.value.empty() && options.settings.empty()) return nullptr;
  auto plan = std::make_shared<RolePlan>();
  plan->anonymous = options.anonymous_role.value;
  if (options.role) plan->source = source_of_setting("role", options.role->value, options.role_environment);
  for (const auto& [name, setting] : options.settings) {
    plan->settings.push_back(source_of_setting(name.value, setting.from.value, setting.environment));
  }
  return plan;
}

std::expected<std::vector<sql::Setting>, http::Response> settings_of(const RolePlan& plan,
                                                                     const http::Exchange& exchange) {
  Binder binder;
  std::vector<sql::Argument> found;
  std::string role = plan.anonymous;
  if (plan.source) {
    if (auto bound = binder.bind({&*plan.source, 1}, exchange, {}, found); !bound) {
      return std::unexpected(refuse_value(bound.error()));
    }
    if (found[0].text) role = *found[0].text;
  }
  // PostgreSQL takes "none" to mean the login itself.
  if (plan.takes_role() && (role.empty() || role == "none")) {
    return std::unexpected(http::refuse_permission(exchange, "This is not permitted."));
  }
  const http::Request& request = exchange.request;
  if (!is_utf8(request.path)) {
    return std::unexpected(http::problem(400, "The path is not UTF-8."));
  }
  std::vector<sql::Setting> settings;
  settings.reserve(6 + plan.settings.size());
  if (plan.takes_role()) settings.push_back({"role", std::move(role)});
  const http::Claims* const claims = http::claims_of(exchange);
  settings.push_back({"request.jwt.claims", claims != nullptr ? json_of(*claims) : std::string{}});
  settings.push_back({"request.method", std::string(request.method_text)});
  settings.push_back({"request.path", std::string(request.path)});
  settings.push_back({"request.client_address", std::string(request.peer)});
  settings.push_back({"request.id", std::string(http::request_id_of(exchange))});
  found.clear();
  if (auto bound = binder.bind(plan.settings, exchange, {}, found); !bound) {
    return std::unexpected(refuse_value(bound.error()));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string& name = plan.settings[i].name;
    // Without a value in the request, PostgreSQL's own settings are not changed. Custom settings become empty, so
    // current_setting() finds them.
    if (found[i].text || name.contains('.')) settings.push_back({name, std::string(found[i].text.value_or(""))});
  }
  return settings;
}

}  // namespace sluice::api
