#include "login/login.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <openssl/rand.h>

#include "base/ascii.h"
#include "base/base64url.h"
#include "base/contains.h"
#include "core/sleep.h"
#include "gateway/basic/password.h"
#include "gateway/digest.h"
#include "gateway/limits/key.h"
#include "gateway/origins.h"
#include "gateway/place.h"
#include "http/identity.h"
#include "sql/encode/encoder.h"

namespace sluice::login {
namespace {

namespace basic = gateway::basic;
using gateway::jwt::Revocation;

constexpr Duration follow_every = 1s;
constexpr std::int64_t overlap_s = 60;  // clocks of nodes differ, and transactions commit later than they write
constexpr std::int64_t prune_every_s = 600;
constexpr std::size_t most_cookies = 4;       // of one name
constexpr std::size_t longest_cookie = 4000;  // bytes: browsers drop cookies of more than 4,096 with their names

std::string random_id() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) throw std::runtime_error("there is no randomness");
  return encode_base64url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// The /24 or the /64 of a client.
std::string network_of(const http::Request& request) {
  std::array<char, 16> room;
  std::string_view network = gateway::limits::client_of(request.peer, room);
  if (network.size() == 4) network.remove_suffix(1);
  return std::string(network);
}

http::Response busy() {
  auto response = http::problem(503, "Too many passwords wait to be verified.");
  response.fields.add_trusted("Retry-After", "1");
  return response;
}

http::Response wrong_password() {
  auto response = http::problem(401, "The name or the password is wrong.");
  response.fields.add_trusted("WWW-Authenticate", "Bearer");
  return response;
}

http::Response json_response(std::string_view text) {
  http::Response response;
  response.fields.add_trusted("Content-Type", "application/json");
  response.fields.add_trusted("Cache-Control", "no-store");
  Buffer body;
  body.append(text);
  response.body = std::move(body);
  return response;
}

std::int64_t whole_seconds(Duration time) { return std::chrono::duration_cast<std::chrono::seconds>(time).count(); }

// The user's password has changed if this has: a hash of the hash, which the table may tell.
std::string credential_of(std::string_view hash) { return gateway::Sha256().of(hash).hex(); }

}  // namespace

Login::Login(std::shared_ptr<const Prepared> prepared, const core::Here& here, std::shared_ptr<sql::Database> database)
    : prepared_(std::move(prepared)),
      reactor_(here.reactor),
      database_(std::move(database)),
      databases_(here.reactor),
      families_((databases_.set({{"users", database_}}), databases_.at("users")),
                {.table = prepared_->options.refresh.table.value,
                 .lifetime = prepared_->options.refresh.lifetime,
                 .pepper = prepared_->keys->pepper()}),
      tries_(databases_.at("users"), {.table = prepared_->options.tries.value}),
      line_(here.reactor, here.mailbox, here.threads, prepared_->options.queue),
      dummy_(prepared_->dummy),
      leads_(here.mesh.core() == 0) {}

std::int64_t Login::now_s() const { return reactor_.wall_clock_ns() / 1'000'000'000; }

http::Response Login::failed(const sql::Error& error) {
  trouble_.met(error.message);
  const bool is_away = error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost ||
                       error.failure == sql::Failure::timed_out || error.failure == sql::Failure::conflict;
  if (!is_away) return http::problem(500);
  auto response = http::problem(503, "Log-ins are not possible now.");
  response.fields.add_trusted("Retry-After", "1");
  return response;
}

Login::Answer Login::refuse_origin(const http::Request& request) const {
  if (!has_cookies()) return std::nullopt;
  const std::string_view site = request.field("sec-fetch-site");
  if (!request.has_field("origin") && (site.empty() || site == "same-origin" || site == "none")) return std::nullopt;
  const std::string_view origin = gateway::origin_of(request);
  if (gateway::is_own_origin(request, origin) || gateway::allows_origin(prepared_->origins, origin)) {
    return std::nullopt;
  }
  return http::problem(403, "Pages of this origin may not do this.");
}

std::expected<Fields, http::Response> Login::parameters_of(const Fields& fields) const {
  Fields parameters;
  for (const sql::Parameter& parameter : prepared_->query.parameters) {
    const auto found = fields.find(parameter.name);
    if (found == fields.end()) {
      return std::unexpected(http::problem(400, fmt::format("The field \"{}\" is missing.", parameter.name)));
    }
    if (found->second.contains('\0')) {  // PostgreSQL's texts have none
      return std::unexpected(http::problem(400, fmt::format("The field \"{}\" has a NUL.", parameter.name)));
    }
    if (found->second.size() > longest_password) {
      return std::unexpected(http::problem(400, fmt::format("The field \"{}\" is too long.", parameter.name)));
    }
    parameters.insert(*found);
  }
  return parameters;
}

core::Task<std::expected<std::optional<Login::User>, http::Response>> Login::find_user(const Fields& fields) {
  std::vector<sql::Argument> arguments;
  for (const sql::Parameter& parameter : prepared_->query.parameters) {
    const auto found = fields.find(parameter.name);
    arguments.push_back(
        {.text = found != fields.end() ? std::optional<std::string_view>(found->second) : std::nullopt});
  }
  const auto cursor = co_await database_->query(prepared_->query, arguments,
                                                {.deadline = reactor_.now() + services::Database::patience});
  if (!cursor) {
    // The name of a user that is not of the column's type: nobody has it.
    if (cursor.error().failure == sql::Failure::bad_argument) co_return std::nullopt;
    co_return std::unexpected(failed(cursor.error()));
  }
  std::optional<User> user;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block && block.error().failure == sql::Failure::bad_argument) co_return std::nullopt;
    if (!block) co_return std::unexpected(failed(block.error()));
    last = block->last;
    if (block->rows == 0) continue;
    if (user || block->rows > 1) {
      trouble_.met("the query of [login] returned more than one user");
      co_return std::unexpected(http::problem(500));
    }
    user.emplace();
    std::vector<sql::Column> columns;
    std::vector<sql::Field> values;
    bool has_subject = false;
    for (std::size_t i = 0; i < block->columns.size(); ++i) {
      const sql::Column& column = block->columns[i];
      const sql::Field& value = block->fields[i];
      if (column.name == "sub") {
        has_subject = !value.is_null();
        user->subject = value.view();
      } else if (column.name == "password") {
        if (!value.is_null()) user->password = value.view();
      } else {
        columns.push_back(column);
        values.push_back(value);
      }
    }
    if (!has_subject) {
      trouble_.met("the query of [login] returned a user without \"sub\"");
      co_return std::unexpected(http::problem(500));
    }
    if (columns.empty()) continue;
    Buffer json;
    sql::Encoder encoder(sql::Format::json, columns, {.object = true});
    encoder.begin(json);
    encoder.rows({.columns = columns, .fields = values, .rows = 1, .last = true}, json);
    encoder.end(json);
    const std::string_view object = json.view();
    const std::size_t begin = object.find('{') + 1;
    user->claims = object.substr(begin, object.rfind('}') - begin);
  }
  trouble_.got_through();
  co_return user;
}

std::string Login::payload_of(const User& user, const RefreshToken& token, std::int64_t now_s) const {
  std::string text = "{";
  for (const auto& [name, claim] : prepared_->options.claims) {
    text += json_string(name.value) + ":" + json_string(claim.value) + ",";
  }
  text += "\"sub\":" + json_string(user.subject);
  if (!user.claims.empty()) text += "," + user.claims;
  return text + fmt::format(R"(,"iat":{},"exp":{},"sid":"{}","jti":"{}"}})", now_s,
                            now_s + whole_seconds(prepared_->options.access), session_of(token.family), random_id());
}

Login::Answer Login::judge(http::Exchange& exchange, const std::string& payload) {
  auto claims = http::Claims::parse(payload);
  if (claims == nullptr) {
    trouble_.met("a user has claims that no token can have: a name twice, a number that is too large, or too deep");
    return http::problem(500, "The claims of the user fit into no token.");
  }
  exchange.attributes.set(http::Identity{.claims = std::move(claims)});
  return std::move(prepared_->guards.judge(exchange, {}).refusal);
}

void Login::add_cookie(http::Response& response, std::string_view name, std::string_view value,
                       std::int64_t for_s) const {
  response.fields.add_owned("Set-Cookie",
                            fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{}", name, value, for_s,
                                        *prepared_->options.cookies.secure ? "; Secure" : ""));
}

void Login::clear_cookies(http::Response& response) const {
  if (!has_cookies()) return;
  const CookieOptions& cookies = prepared_->options.cookies;
  for (const auto* name : {&cookies.access, &cookies.refresh}) add_cookie(response, name->value, "", 0);
}

http::Response Login::answer(const std::string& payload, const RefreshToken& token, std::int64_t now_s,
                             std::int64_t expires_s) {
  const std::string access = prepared_->keys->sign(payload);
  if (access.size() > (has_cookies() ? std::min(longest_cookie, prepared_->token_limit) : prepared_->token_limit)) {
    trouble_.met("a user has more claims than fit into a token or its cookie");
    return http::problem(500, "The claims of the user are too long.");
  }
  const std::int64_t lasts_s = whole_seconds(prepared_->options.access);
  if (!has_cookies()) {
    return json_response(
        fmt::format(R"({{"access_token":"{}","token_type":"Bearer","expires_in":{},"refresh_token":"{}"}})", access,
                    lasts_s, token.text()));
  }
  auto response = json_response(payload);
  const CookieOptions& cookies = prepared_->options.cookies;
  add_cookie(response, cookies.access.value, access, lasts_s);
  add_cookie(response, cookies.refresh.value, token.text(), expires_s - now_s);
  return response;
}

core::Task<http::Response> Login::log_in(http::Exchange& exchange) {
  if (auto refused = refuse_origin(exchange.request)) co_return std::move(*refused);
  auto fields = co_await read_fields(exchange.request);
  if (!fields) co_return std::move(fields.error());
  auto parameters = parameters_of(*fields);
  if (!parameters) co_return std::move(parameters.error());
  const auto given = fields->find("password");
  if (given == fields->end()) co_return http::problem(400, "The field \"password\" is missing.");
  if (given->second.size() > longest_password) co_return http::problem(400, "The password is longer than 1,024 bytes.");
  const std::string network = network_of(exchange.request);
  if (line_.is_full(network)) {
    ++counters_.busy;
    co_return busy();
  }

  auto user = co_await find_user(*parameters);
  if (!user) co_return std::move(user.error());
  // By the user if there is one: a name may be written in several ways.
  Tries::Try tried{.account = *user ? "sub:" + (*user)->subject : "name:" + to_lower(json_of(*parameters)),
                   .network = network,
                   .now_ms = reactor_.wall_clock_ns() / 1'000'000};
  const auto wait = co_await tries_.begin(tried);
  if (!wait) co_return failed(wait.error());
  if (*wait > Duration{}) {
    ++counters_.delayed;
    auto response = http::problem(429, "There were too many tries to log in.");
    response.fields.add_owned("Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(*wait).count()));
    co_return response;
  }

  const bool has_password = *user && (*user)->password && basic::check_hash(*(*user)->password).empty();
  if (*user && (*user)->password && !has_password) {
    hashes_.met(fmt::format("the password of the user {} is no hash that can be verified: it {}", (*user)->subject,
                            basic::check_hash(*(*user)->password)));
  }
  if (has_password) dummy_ = *(*user)->password;
  const auto work = [hash = dummy_, password = given->second] { return basic::verify_password(hash, password); };
  const auto right = co_await line_.run(network, work);
  if (!right) {
    ++counters_.busy;
    co_return busy();
  }
  if (!*right || !has_password) {
    ++counters_.wrong;
    co_return wrong_password();
  }

  const std::int64_t now = now_s();
  if (auto refused = judge(exchange, payload_of(**user, {}, now))) {
    ++counters_.refused;
    co_return std::move(*refused);
  }
  const auto forgiven = co_await tries_.succeeded(tried);
  if (!forgiven) co_return failed(forgiven.error());
  std::string hash = *(*user)->password;
  if (prepared_->options.rehash && !hash.starts_with("$argon2id$")) {
    hash = co_await rehash(network, (*user)->subject, given->second, std::move(hash));
  }
  const auto begun = co_await families_.begin(
      {.subject = (*user)->subject, .parameters = json_of(*parameters), .credential = credential_of(hash)}, now);
  if (!begun) co_return failed(begun.error());
  // The password may have changed while it was verified.
  auto after = co_await find_user(*parameters);
  if (!after || !*after || (*after)->password != hash || (*after)->subject != (*user)->subject) {
    const auto ended = co_await families_.end_session(session_of(begun->family), now);
    if (!ended) co_return failed(ended.error());
    if (!after) co_return std::move(after.error());
    ++counters_.wrong;
    co_return wrong_password();
  }
  ++counters_.logins;
  co_return answer(payload_of(**user, *begun, now), *begun, now,
                   now + whole_seconds(prepared_->options.refresh.lifetime));
}

core::Task<std::string> Login::rehash(std::string network, std::string subject, std::string password,
                                      std::string before) {
  const auto work = [password = std::move(password)] { return basic::hash_password(password); };
  auto hash = co_await line_.run(std::move(network), work);
  if (!hash) co_return before;  // the next log-in tries again
  const auto written = co_await databases_.at("users").write(
      prepared_->options.rehash->value, services::Value("password", *hash), services::Value("sub", subject));
  if (written && written->changes() != 0) co_return std::move(*hash);
  trouble_.met("rehash: " + (written ? "it has changed no row" : written.error().message));
  co_return before;
}

core::Task<std::expected<std::vector<RefreshToken>, http::Response>> Login::tokens_of(
    const http::Request& request) const {
  std::vector<RefreshToken> tokens;
  if (!has_cookies()) {
    auto fields = co_await read_fields(request);
    if (!fields) co_return std::unexpected(std::move(fields.error()));
    const auto given = fields->find("refresh_token");
    if (given == fields->end()) {
      co_return std::unexpected(http::problem(400, "The field \"refresh_token\" is missing."));
    }
    if (auto token = RefreshToken::parse(given->second)) tokens.push_back(std::move(*token));
    co_return tokens;
  }
  // Another port or another domain of the host may have set a cookie of the same name.
  const std::string begin = prepared_->options.cookies.refresh.value + "=";
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "cookie")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      std::string_view pair = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
      while (pair.starts_with(' ')) pair.remove_prefix(1);
      while (pair.ends_with(' ')) pair.remove_suffix(1);
      if (!pair.starts_with(begin) || tokens.size() == most_cookies) continue;
      if (auto token = RefreshToken::parse(pair.substr(begin.size()))) tokens.push_back(std::move(*token));
    }
  }
  co_return tokens;
}

http::Response Login::refuse_token(std::string_view detail) const {
  auto response = http::problem(401, detail);
  response.fields.add_trusted("WWW-Authenticate", "Bearer");
  clear_cookies(response);
  return response;
}

void Login::end_session(const std::string& session, std::int64_t now_s) {
  const Revocation ended{.until_s = static_cast<double>(now_s + whole_seconds(prepared_->options.access)),
                         .session = session};
  const auto added = prepared_->ended->add({&ended, 1}, static_cast<double>(now_s));
  if (!added) log_error("[login]: " + added.error());
}

core::Task<http::Response> Login::refresh(http::Exchange& exchange) {
  if (auto refused = refuse_origin(exchange.request)) co_return std::move(*refused);
  auto tokens = co_await tokens_of(exchange.request);
  if (!tokens) co_return std::move(tokens.error());
  for (const RefreshToken& token : *tokens) {
    if (auto answered = co_await refresh_by(exchange, token)) co_return std::move(*answered);
  }
  co_return refuse_token(tokens->empty() ? "There is no refresh token." : "The refresh token is not valid any more.");
}

core::Task<Login::Answer> Login::refresh_by(http::Exchange& exchange, RefreshToken token) {
  for (;;) {
    const std::int64_t now = now_s();
    const auto found = co_await families_.find(token, now);
    if (!found) co_return failed(found.error());
    const std::string session = session_of(token.family);
    if (!*found) {
      if (found->error() == Families::Refusal::reused) {
        ++counters_.reused;
        end_session(session, now);
        log_error("[login]: a refresh token was used again, which may have been stolen; its log-in has ended");
      }
      co_return std::nullopt;
    }
    const Families::Found& family = **found;
    auto user = co_await find_user(fields_of(family.user.parameters));
    if (!user) co_return std::move(user.error());
    // Somebody else may have the name by now, and a new password ends all log-ins.
    const bool is_gone = !*user || (*user)->subject != family.user.subject || !(*user)->password ||
                         credential_of(*(*user)->password) != family.user.credential;
    Answer refused = is_gone ? refuse_token("The user's name or password has changed, so the log-in has ended.")
                             : judge(exchange, payload_of(**user, family.next, now));
    if (refused) {
      const auto ended = co_await families_.end_session(session, now);
      if (!ended) co_return failed(ended.error());
      end_session(session, now);
      ++counters_.refused;
      if (!is_gone) clear_cookies(*refused);
      co_return refused;
    }
    const auto rotated = co_await families_.rotate(family, now);
    if (!rotated) co_return failed(rotated.error());
    if (!*rotated) continue;  // another request has changed the family meanwhile
    ++counters_.refreshes;
    co_return answer(payload_of(**user, family.next, now), family.next, now, family.expires_s);
  }
}

core::Task<http::Response> Login::log_out(http::Exchange& exchange) {
  if (auto refused = refuse_origin(exchange.request)) co_return std::move(*refused);
  const std::string_view query = exchange.request.query;
  if (!query.empty() && query != "everywhere" && query != "everywhere=") {
    co_return http::problem(400, "The only parameter is \"everywhere\".");
  }
  auto tokens = co_await tokens_of(exchange.request);
  if (!tokens) co_return std::move(tokens.error());
  if (!has_cookies() && tokens->empty()) co_return http::problem(400, "The field is no refresh token.");
  const std::int64_t now = now_s();
  for (const RefreshToken& token : *tokens) {
    const auto subject = co_await families_.end(token, now);
    if (!subject) co_return failed(subject.error());
    if (!*subject) continue;
    ++counters_.logouts;
    end_session(session_of(token.family), now);
    if (query.empty()) continue;
    const auto others = co_await families_.end_all(**subject, now);
    if (!others) co_return failed(others.error());
    for (const std::string& session : *others) end_session(session, now);
  }
  http::Response response;
  response.status = 204;
  response.fields.add_trusted("Cache-Control", "no-store");
  clear_cookies(response);
  co_return response;
}

void Login::begin() {
  if (leads_ && tasks_.empty()) tasks_.spawn(follow());
}

core::Task<void> Login::follow() {
  const std::int64_t kept_s = whole_seconds(prepared_->options.access) + 3600;  // with the longest leeway
  std::int64_t since_s = now_s() - kept_s;
  std::int64_t prune_at_s = now_s() + prune_every_s;
  for (;;) {
    const std::int64_t now = now_s();
    const auto ended = co_await families_.ended_since(since_s);
    if (ended) {
      trouble_.got_through();
      std::vector<Revocation> fresh;
      for (const auto& [session, at_s] : *ended) {
        if (!known_.emplace(session, at_s).second) continue;
        fresh.push_back(
            {.until_s = static_cast<double>(at_s + whole_seconds(prepared_->options.access)), .session = session});
      }
      if (!fresh.empty()) {
        const auto added = prepared_->ended->add(fresh, static_cast<double>(now));
        if (!added) log_error("[login]: " + added.error());
      }
      since_s = now - overlap_s;
    } else {
      trouble_.met(ended.error().message);
    }
    if (now >= prune_at_s) {
      prune_at_s = now + prune_every_s;
      std::erase_if(known_, [&](const auto& one) { return one.second < now - kept_s; });
      const auto families = co_await families_.prune(now);
      const auto tries = co_await tries_.prune(now * 1000);
      if (!families) trouble_.met(families.error().message);
      if (!tries) trouble_.met(tries.error().message);
    }
    co_await core::Sleep(reactor_, reactor_.now() + follow_every);
  }
}

Readings Login::readings() const {
  const auto total = [](std::string_view name, std::string_view help, std::uint64_t value) {
    return counter(name, help, static_cast<double>(value));
  };
  const auto refused = [](std::string_view why, std::uint64_t value) {
    return counter("sluice_login_refused_total", "Log-ins and refreshes that were refused.", static_cast<double>(value),
                   fmt::format("reason=\"{}\"", why));
  };
  return {
      total("sluice_login_logins_total", "Log-ins with a right password.", counters_.logins),
      total("sluice_login_refreshes_total", "Access tokens that were given for a refresh token.", counters_.refreshes),
      total("sluice_login_logouts_total", "Log-outs.", counters_.logouts),
      refused("password", counters_.wrong),
      refused("delay", counters_.delayed),
      refused("busy", counters_.busy),
      refused("require", counters_.refused),
      refused("reuse", counters_.reused)};
}

core::Async<http::Response> Me::handle(http::Exchange& exchange) {
  const http::Claims* const claims = http::claims_of(exchange);
  if (claims == nullptr) return http::refuse_permission(exchange, "Nobody has logged in.");
  std::string text = "{";
  for (const http::Claim& claim : claims->all()) {
    if (claim.depth != 1) continue;
    text += (text.size() > 1 ? "," : "") + json_string(claim.path) + ":";
    text += claim.kind == http::Claim::Kind::string ? json_string(claim.text) : std::string(claim.text);
  }
  return json_response(text + "}");
}

}  // namespace sluice::login
