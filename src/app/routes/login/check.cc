#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "api/require.h"
#include "app/config/checks.h"
#include "app/config/listen.h"
#include "app/config/paths.h"
#include "app/config/text.h"
#include "app/routes/login/tables.h"
#include "app/routes/shapes.h"
#include "base/contains.h"
#include "core/address.h"
#include "gateway/place.h"
#include "gateway/policies/options.h"

namespace sluice::app {
namespace {

using gateway::Place;

// Whether only programs of the same machine reach the server, and no proxy with TLS stands in front.
bool is_only_local(const ServerOptions& server) {
  return server.trusted_proxies.empty() && std::ranges::all_of(server.listen, [&](const auto& one) {
           const Listen listen = Listen::parse(one.value);
           const auto address = core::Address::parse(listen.address);
           return !listen.secure(server.tls.has_value()) && address && address->is_loopback();
         });
}

gateway::jwt::Options* policy_of(Options& options) {
  const auto index = options.find_policy(options.login->policy.value);
  if (!index || !options.policies[*index].value.is<gateway::jwt::Options>()) return nullptr;
  return &options.policies[*index].value.of<gateway::jwt::Options>();
}

bool has_default_places(const gateway::jwt::Options& policy) {
  return policy.from.size() == 1 && policy.from.front().position.line == 0;
}

// Checks that the policy takes tokens with this claim of [login.claims].
void check_claim(const config::Checks& checks, const login::Options& login, std::string_view name, std::string_view key,
                 const std::vector<std::string>& accepted) {
  const auto found = std::ranges::find(login.claims, name, [](const auto& one) { return one.name.value; });
  if (found == login.claims.end()) {
    if (accepted.empty()) return;
    checks.complain(
        login.policy.position,
        fmt::format("[policy.{}] has \"{}\", and the tokens of [login] have no \"{}\"", login.policy.value, key, name),
        fmt::format("add claims = {{ {} = \"{}\" }}", name, accepted.front()));
    return;
  }
  if (contains(accepted, found->value.value) || (accepted.empty() && name != "aud")) return;
  checks.complain(
      found->name.position,
      fmt::format("[policy.{}] refuses tokens with the {} \"{}\"", login.policy.value, key, found->value.value),
      fmt::format("add it to \"{}\" of the policy", key));
}

void check_requirement(const config::Checks& checks, const api::Requirement& requirement, Position position) {
  if (requirement.kind == api::Requirement::Kind::exists) {
    checks.complain(position, "[login] takes no exists()", "let the query return a column, and ask for its claim");
  }
  for (const api::Operand& operand : requirement.operands) {
    if (!operand.source || operand.text.starts_with("claim.")) continue;
    checks.complain(position, fmt::format("[login] has no {}", operand.text), "its values are claims: claim.NAME");
  }
  for (const api::Requirement& part : requirement.parts) check_requirement(checks, part, position);
}

void check_cookies(const config::Checks& checks, const login::Options& login) {
  const auto& [access, refresh, secure] = login.cookies;
  if (access.value == refresh.value) checks.complain(refresh.position, "both cookies have the same name");
  for (const auto* name : {&access, &refresh}) {
    if (!*secure && name->value.starts_with("__")) {
      checks.complain(name->position, "browsers refuse a cookie of this name without Secure", "set secure = true");
    }
    if (login.answer.value == login::AnswerBy::body && name->position.line != 0) {
      checks.complain(name->position, "with answer = \"body\" there are no cookies");
    }
  }
}

}  // namespace

void LoginTable::resolve(Options& options, const config::Paths& paths) {
  if (!options.login) return;
  for (auto& path : options.login->signing_keys) paths.resolve(path);
}

void LoginTable::complete(Options& options) {
  if (!options.login) return;
  login::Options& login = *options.login;
  login::CookieOptions& cookies = login.cookies;
  if (!cookies.secure) cookies.secure = !is_only_local(options.server);
  const std::string prefix = *cookies.secure ? "__Host-" : "";
  if (cookies.access.value.empty()) cookies.access.value = prefix + "access";
  if (cookies.refresh.value.empty()) cookies.refresh.value = prefix + "refresh";
  gateway::jwt::Options* const policy = policy_of(options);
  if (policy == nullptr) return;
  policy->by_login = true;
  if (login.answer.value != login::AnswerBy::cookie) return;
  policy->refresh_cookie = cookies.refresh.value;
  if (has_default_places(*policy)) policy->from.insert(policy->from.begin(), {"cookie." + cookies.access.value});
}

void LoginTable::check(config::Checks& checks) {
  if (!checks.options.login) return;
  login::Options& login = *checks.options.login;
  checks.check_use(login.use);
  if (const auto own = std::ranges::find(login.use, login.policy.value, &Located<std::string>::value);
      own != login.use.end()) {
    checks.complain(own->position, "nobody has a token before the log-in", "leave the policy out of \"use\"");
  }
  for (const std::string& path : {login.path.value + "/login", login.jwks}) {
    if (!path.empty()) (void)checks.parse_path({path, login.path.position});
  }
  checks.choose_database(login.database, login.position, "[login]");
  if (login.signing_key.has_value() == !login.signing_keys.empty() && !checks.has_errors()) {
    checks.complain(login.position,
                    login.signing_key ? "[login] has both \"signing_key\" and \"signing_keys\""
                                      : "[login] has no key to sign tokens with",
                    "`sluice keys --kid login` makes one: signing_keys = [\"login.key.pem\"]");
  }
  if (login.access >= login.refresh.lifetime) {
    checks.complain(login.position, "\"access\" must be shorter than \"for\" of [login.refresh]");
  }
  if (login.algorithm && gateway::jwt::name_of(login.algorithm->value).starts_with("HS")) {
    checks.complain(login.algorithm->position, "[login] signs with a private key, not with a secret");
  }
  for (const auto& [name, claim] : login.claims) {
    for (const std::string_view own : {"sub", "iat", "exp", "nbf", "jti", "sid"}) {
      if (name.value == own) checks.complain(name.position, fmt::format("[login] itself gives the claim \"{}\"", own));
    }
  }
  for (const api::RequireOptions& one : login.require.items) {
    const auto parsed = api::parse_requirement(one.that.value);
    if (!parsed) {
      checks.complain(one.that.position, parsed.error().message);
    } else {
      check_requirement(checks, *parsed, one.that.position);
    }
  }
  check_cookies(checks, login);

  const gateway::jwt::Options* const policy = policy_of(checks.options);
  if (policy == nullptr) {
    if (!login.policy.value.empty()) {
      checks.complain(login.policy.position, fmt::format("there is no [policy.{}] of type \"jwt\"", login.policy.value),
                      fmt::format("add [policy.{}] with type = \"jwt\"", login.policy.value));
    }
    return;
  }
  check_claim(checks, login, "iss", "issuer", policy->issuer.items);
  check_claim(checks, login, "aud", "audience", policy->audience.items);
  const bool has_cookies = login.answer.value == login::AnswerBy::cookie;
  const Place wanted{.in = has_cookies ? Place::In::cookie : Place::In::header,
                     .name = has_cookies ? login.cookies.access.value : "Authorization"};
  if (!contains(policy->places(), wanted)) {
    checks.complain(login.policy.position,
                    fmt::format("[policy.{}] takes no tokens from where clients have them", login.policy.value),
                    fmt::format("add \"{}{}\" to its \"from\"", has_cookies ? "cookie." : "header.",
                                has_cookies ? wanted.name : "authorization"));
  }
}

std::vector<Shape> LoginTable::shapes(const login::Options& login) {
  const Position position = login.path.position.line != 0 ? login.path.position : login.position;
  std::vector<Shape> shapes;
  for (const char* const name : {"/login", "/refresh", "/logout"}) {
    shapes.push_back(
        {.path = login.path.value + name, .position = position, .use = login.use, .methods = {http::Method::post}});
  }
  Shape::Use with_token = login.use;
  with_token.push_back(login.policy);
  shapes.push_back({.path = login.path.value + "/me", .position = position, .use = std::move(with_token)});
  if (!login.jwks.empty()) shapes.push_back({.path = login.jwks, .position = position});
  return shapes;
}

}  // namespace sluice::app
