// [login]
#include "login/login.h"

#include <utility>

#include <fmt/format.h>

#include "app/components/login/login.h"
#include "app/config/near_name.h"
#include "app/config/statement.h"
#include "app/explain/answer.h"
#include "app/prepare/opened_database.h"
#include "app/prepare/preparation.h"
#include "app/routes/login/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "base/contains.h"
#include "gateway/basic/password.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

class LoginHandler final : public http::Handler {
 public:
  using Does = core::Task<http::Response> (login::Login::*)(http::Exchange&);
  LoginHandler(login::Login& login, Does does) : login_(login), does_(does) {}
  core::Async<http::Response> handle(http::Exchange& exchange) override { return (login_.*does_)(exchange); }

 private:
  login::Login& login_;
  const Does does_;
};

// The public keys.
class KeysHandler final : public http::Handler {
 public:
  explicit KeysHandler(std::shared_ptr<const login::Keys> keys) : keys_(std::move(keys)) {}
  core::Async<http::Response> handle(http::Exchange&) override {
    http::Response response;
    response.fields.add_trusted("Content-Type", "application/json");
    response.fields.add_trusted("Cache-Control", "max-age=300");
    response.fields.add_trusted("Access-Control-Allow-Origin", "*");
    response.body = http::SharedBytes{.owner = keys_, .bytes = keys_->jwks()};
    return response;
  }

 private:
  const std::shared_ptr<const login::Keys> keys_;
};

class LoginRoute final : public Route {
 public:
  LoginRoute(Plan& plan, std::shared_ptr<LoginComponent> component)
      : Route(plan, shapes_of<LoginTable>(component->prepared->options)), component_(std::move(component)) {}

  void build(Site& site) const override {
    const LoginHandler::Does does[] = {&login::Login::log_in, &login::Login::refresh, &login::Login::log_out};
    for (std::size_t i = 0; i < shapes().size(); ++i) {
      Site::Builder builder(site, *this, shapes()[i]);
      login::Login& part = builder.part(*component_);
      std::unique_ptr<http::Handler> handler;
      if (i < std::size(does)) {
        handler = std::make_unique<LoginHandler>(part, does[i]);
      } else if (i == std::size(does)) {
        handler = std::make_unique<login::Me>();
      } else {
        handler = std::make_unique<KeysHandler>(component_->prepared->keys);
      }
      builder.add(builder.own(std::move(handler)));
    }
  }
  void explain(AnswerExplainer& into, const Shape& shape, http::Exchange&) const override {
    const login::Options& options = component_->prepared->options;
    if (&shape == &shapes()[3]) {
      into.add("log-in", "the claims of the token");
    } else if (&shape - shapes().data() == 4) {
      into.add("log-in", "the public keys");
    } else {
      into.add("log-in", shape.path.substr(options.path.value.size() + 1));
      into.add("database", options.database.value);
    }
  }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const LoginRoute*>(&before);
    return other != nullptr && component_ == other->component_;
  }

 private:
  const std::shared_ptr<LoginComponent> component_;
};

// The sessions that the plan before knows as ended; else new ones.
std::shared_ptr<gateway::jwt::Revocations> ended_sessions(const Plan* previous) {
  if (previous != nullptr) {
    for (const auto& before : previous->all<LoginComponent>()) return before->prepared->ended;
  }
  return gateway::jwt::Revocations::in_memory();
}

class LoginPreparation {
 public:
  LoginPreparation(Preparation& preparation, const login::Options& login)
      : preparation_(preparation),
        login_(login),
        index_(preparation.options().index_of_database(login.database.value)),
        database_(*preparation.databases[index_].database),
        dialect_(preparation.options().databases[index_].value.dialect()) {}

  // False if an error has been reported.
  std::expected<bool, sql::Error> check_tables() {
    services::Databases none(*preparation_.loop.reactor);
    none.set({{"users", nullptr}});  // the statements are only read off
    const login::Families families(none.at("users"), {.table = login_.refresh.table.value});
    const login::Tries tries(none.at("users"), {.table = login_.tries.value});
    const auto check = [&](const auto& of, const Located<std::string>& table) -> std::expected<bool, sql::Error> {
      sql::Result<sql::Statement> statement;
      for (const std::string_view text : of.reading()) {
        statement = preparation_.loop.run(database_.prepare(text, {}));
        if (!statement) break;
      }
      if (statement) {
        for (const std::string_view text : of.writing()) {
          statement = preparation_.loop.run(database_.prepare_writing(text, {}));
          if (!statement) break;
        }
      }
      if (statement) return true;
      if (is_away(statement.error())) return std::unexpected(statement.error());
      const Position position = table.position.line != 0 ? table.position : login_.position;
      preparation_.errors.push_back({position,
                                     fmt::format("[login]: the table {}: {}", table.value, describe(statement.error())),
                                     "`sluice login sql --apply` makes the tables"});
      return false;
    };
    auto checked = check(families, login_.refresh.table);
    if (checked && *checked) checked = check(tries, login_.tries);
    return checked;
  }

  // Nothing if an error has been reported.
  std::expected<std::optional<sql::Statement>, sql::Error> query() {
    auto statement = preparation_.loop.run(database_.prepare(login_.query.value, {}));
    if (statement) {
      const auto reads = preparation_.loop.run(
          sql::check_reading(database_, preparation_.options().databases[index_].value, login_.query.value, {}));
      if (!reads) statement = std::unexpected(reads.error());
    }
    if (!statement) return refused(login_.query, statement.error());
    const auto complain = [&](std::string text, std::string hint = {}) {
      preparation_.errors.push_back({login_.query.position, "[login]: " + std::move(text), std::move(hint)});
    };
    const std::size_t errors = preparation_.errors.size();
    const std::string example = "SELECT id AS sub, role, password FROM users WHERE email = :email";
    for (const std::string_view needed : {"sub", "password"}) {
      if (contains(statement->columns, needed, &sql::Column::name)) continue;
      complain(fmt::format("the query has no column \"{}\"", needed), example);
    }
    std::vector<std::string_view> names;
    for (const sql::Column& column : statement->columns) {
      if (contains(names, column.name)) complain(fmt::format("the query has the column \"{}\" twice", column.name));
      names.push_back(column.name);
      const bool is_own = contains(std::initializer_list<std::string_view>{"iat", "exp", "nbf", "jti", "sid"},
                                   std::string_view(column.name)) ||
                          contains(login_.claims, column.name, [](const auto& one) { return one.name.value; });
      if (is_own) complain(fmt::format("the column \"{}\" would be a claim that [login] gives itself", column.name));
    }
    if (statement->parameters.empty()) complain("the query has no parameter, so it finds no user", example);
    if (contains(statement->parameters, "password", &sql::Parameter::name)) {
      complain("the query has the parameter :password",
               "Sluice verifies the password: the query returns the hash as the column \"password\"");
    }
    if (errors != preparation_.errors.size()) return std::nullopt;
    return std::move(*statement);
  }

  std::expected<void, sql::Error> check_rehash() {
    if (!login_.rehash) return {};
    auto statement = preparation_.loop.run(database_.prepare_writing(login_.rehash->value, {}));
    if (!statement) {
      auto reported = refused(*login_.rehash, statement.error());
      if (!reported) return std::unexpected(reported.error());
      return {};
    }
    const auto has = [&](std::string_view name) {
      return contains(statement->parameters, name, &sql::Parameter::name);
    };
    if (statement->parameters.size() != 2 || !has("password") || !has("sub")) {
      preparation_.errors.push_back({login_.rehash->position,
                                     "[login]: the parameters of \"rehash\" are :password and :sub",
                                     "UPDATE users SET password = :password WHERE id = :sub"});
    }
    return {};
  }

  // Before the first request: the sessions whose access tokens are still valid.
  void read_ended(gateway::jwt::Revocations& ended) {
    services::Databases databases(*preparation_.loop.reactor);
    databases.set({{"users", std::shared_ptr<sql::Database>(&database_, [](sql::Database*) {})}});
    login::Families families(databases.at("users"), {.table = login_.refresh.table.value});
    const std::int64_t now = preparation_.loop.reactor->wall_clock_ns() / 1'000'000'000;
    const auto access = std::chrono::duration_cast<std::chrono::seconds>(login_.access).count();
    const auto found = preparation_.loop.run(families.ended_since(now - access - 3600));
    if (!found) return;  // the running server goes on trying
    std::vector<gateway::jwt::Revocation> revoked;
    for (const auto& [session, at_s] : *found) {
      revoked.push_back({.until_s = static_cast<double>(at_s + access), .session = session});
    }
    (void)ended.add(revoked, static_cast<double>(now));
  }

  [[nodiscard]] std::size_t index() const { return index_; }

 private:
  std::expected<std::optional<sql::Statement>, sql::Error> refused(const Located<std::string>& text,
                                                                   const sql::Error& error) {
    if (is_away(error)) return std::unexpected(error);
    preparation_.errors.push_back(
        config::statement_refused("[login]", text, error, preparation_.source,
                                  near_name(preparation_.loop, database_, dialect_, text.value, error)));
    return std::nullopt;
  }

  Preparation& preparation_;
  const login::Options& login_;
  const std::size_t index_;
  sql::Database& database_;
  const sql::Dialect dialect_;
};

}  // namespace

std::expected<void, Away> LoginTable::prepare(Preparation& preparation) {
  if (!preparation.options().login) return {};
  const login::Options& login = *preparation.options().login;
  Plan& plan = preparation.plan;
  (void)preparation.security(login.use);
  (void)preparation.security({login.policy});  // GET PATH/me
  const std::size_t index = plan.options.index_of_database(login.database.value);
  if (!preparation.databases[index].database || !plan.login_keys) return {};

  const auto& policy =
      plan.options.policies[*plan.options.find_policy(login.policy.value)].value.of<gateway::jwt::Options>();
  if (!policy.algorithms.empty() && !contains(policy.algorithms, plan.login_keys->algorithm())) {
    preparation.errors.push_back({login.policy.position,
                                  fmt::format("[policy.{}] does not accept {}, with which [login] signs",
                                              login.policy.value, gateway::jwt::name_of(plan.login_keys->algorithm())),
                                  "leave out \"algorithms\" of the policy"});
  }
  LoginPreparation own(preparation, login);
  const auto away = [&](const sql::Error& error) { return std::unexpected(Away{index, error}); };
  const auto tables = own.check_tables();
  if (!tables) return away(tables.error());
  auto query = own.query();
  if (!query) return away(query.error());
  if (const auto checked = own.check_rehash(); !checked) return away(checked.error());
  if (!*tables || !*query) return {};

  auto prepared = std::make_shared<login::Prepared>();
  prepared->options = login;
  prepared->origins = policy.origins;
  prepared->keys = plan.login_keys;
  prepared->query = std::move(**query);
  prepared->ended = ended_sessions(preparation.previous);
  prepared->token_limit = policy.token_limit;
  prepared->dummy = gateway::basic::hash_password(Plan::new_boot());
  for (const api::RequireOptions& one : login.require.items) prepared->guards.add(one, http::Pattern());
  if (preparation.previous == nullptr) own.read_ended(*prepared->ended);
  if (login.answer.value == login::AnswerBy::cookie && *login.cookies.secure && !plan.options.server.tls &&
      plan.options.server.trusted_proxies.empty()) {
    plan.warnings.push_back(
        "[login]: browsers keep its cookies over TLS only, and [server] has neither [server.tls] nor "
        "\"trusted_proxies\"");
  }
  const auto component =
      plan.add(std::make_shared<LoginComponent>(std::move(prepared), plan.databases[index]), preparation.previous);
  plan.routes.push_back(std::make_shared<LoginRoute>(plan, component));
  return {};
}

}  // namespace sluice::app
