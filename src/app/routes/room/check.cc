#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "api/require.h"
#include "api/source.h"
#include "app/config/checks.h"
#include "app/routes/endpoint/check_endpoint.h"
#include "app/routes/room/tables.h"
#include "app/routes/shapes.h"
#include "base/ascii.h"
#include "base/contains.h"
#include "gateway/policies/options.h"
#include "sql/parameters.h"

namespace sluice::app {
namespace {

bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Replaces each `claim.NAME` of a statement by a parameter of the same length, so that positions stay, and declares it.
Located<std::string> take_claims(const Located<std::string>& sql, std::vector<Named<api::ParamOptions>>& params) {
  Located<std::string> made = sql;
  std::string& text = made.value;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\'' || text[at] == '"') {
      const std::size_t end = text.find(text[at], at + 1);
      at = end == text.npos ? text.size() : end + 1;
      continue;
    }
    const bool begins = at == 0 || (!is_word(text[at - 1]) && text[at - 1] != '.' && text[at - 1] != ':');
    if (!begins || !std::string_view(text).substr(at).starts_with("claim.")) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
    const std::string claim = text.substr(at, end - at);
    std::string name = claim.substr(1);
    std::ranges::replace(name, '.', '_');
    text.replace(at, end - at, ":" + name);
    if (!contains(params, name, [](const auto& one) { return one.name.value; })) {
      Named<api::ParamOptions> param;
      param.name = {name, sql.position};
      param.value.from = Located<std::string>(claim, sql.position);
      params.push_back(std::move(param));
    }
    at = end;
  }
  return made;
}

// The policy that limits how often a client publishes.
std::string rate_policy(const RoomOptions& room) { return room.host.value + room.path.value + " publish"; }

void add_rate_policy(Options& options, RoomOptions& room) {
  Named<gateway::PolicyOptions> policy;
  policy.name = {rate_policy(room), room.publish->position};
  policy.value.type = {gateway::policy_type<gateway::limits::RateLimitOptions>, room.publish->position};
  auto& limit = policy.value.of<gateway::limits::RateLimitOptions>();
  limit.rate = room.publish->rate;
  const bool has_claims = options.gives_claims(room.endpoint.use);
  limit.per.items = {has_claims ? "claim.sub" : "client"};
  options.policies.push_back(std::move(policy));
  room.endpoint.post->use.push_back({rate_policy(room), room.publish->position});
}

// Clients that have joined are judged again by what the server remembers of them.
void check_sources(const config::Checks& checks, const api::Requirement& requirement, Position position) {
  for (const api::Operand& operand : requirement.operands) {
    if (!operand.source || operand.text.starts_with("claim.") || operand.text.starts_with("path.")) continue;
    checks.complain(position, fmt::format("the \"require\" of a room has no {}", operand.text),
                    "it is asked again while clients are there, and knows their claims and the path");
  }
  for (const api::Requirement& part : requirement.parts) check_sources(checks, part, position);
}

}  // namespace

void RoomTables::complete(Options& options) {
  for (RoomOptions& room : options.room_tables) {
    api::EndpointOptions& endpoint = room.endpoint;
    endpoint = {};
    endpoint.path = room.path;
    endpoint.host = room.host;
    endpoint.database = room.database;
    endpoint.params = room.params;
    endpoint.use = room.use;
    endpoint.is_public = room.is_public;
    endpoint.access_log = room.access_log;
    endpoint.require = room.require;
    endpoint.position = room.position;
    endpoint.get = room.history.query;
    if (!contains(endpoint.params, "after", [](const auto& one) { return one.name.value; })) {
      Named<api::ParamOptions> after;
      after.name = {"after", room.history.query.position};
      after.value.type = Located<sql::ParameterType>(sql::ParameterType::integer, room.history.query.position);
      Scalar zero;
      zero.text = "0";
      after.value.default_value = Located<Scalar>(std::move(zero), room.history.query.position);
      endpoint.params.push_back(std::move(after));
    }
    if (!room.publish) continue;
    endpoint.post.emplace();
    endpoint.post->sql = take_claims(room.publish->sql, endpoint.params);
    endpoint.post->one_row = true;  // the rate counts rows
    endpoint.post->use = room.use;
    std::ranges::copy(room.publish->use, std::back_inserter(endpoint.post->use));
    endpoint.post->is_public = room.is_public;
    endpoint.post->require = room.publish->require;
    endpoint.post->body_limit = Located<ByteSize>(room.publish->limit, room.publish->position);
    add_rate_policy(options, room);
  }
  if (!options.rooms) return;
  for (const RoomOptions& room : options.room_tables) {
    std::uint64_t& longest = options.rooms->longest_message.bytes;
    longest = std::max(longest, room.longest_message().bytes);
  }
}

void RoomTables::check(config::Checks& checks) {
  for (RoomOptions& room : checks.options.room_tables) {
    const auto query = sql::parse_parameters(room.history.query.value, sql::PlaceholderStyle::question);
    if (query && !contains(query->names, std::string("after"))) {
      checks.complain(room.history.query.position, "the history does not begin after :after", "... AND seq > :after");
      continue;
    }
    config::check_endpoint(checks, room.endpoint);
    room.database = room.endpoint.database;
    const auto pattern = http::Pattern::parse(room.path.value);
    if (pattern && (pattern->names().empty() ||
                    contains(pattern->segments, http::Pattern::Kind::rest, &http::Pattern::Segment::kind))) {
      checks.complain(room.path.position, "the path of a room has parameters, each for one segment", "/rooms/{id}");
    }
    if (pattern && contains(pattern->names(), std::string("after"))) {
      checks.complain(room.path.position, ":after is the offset, so {after} needs another name");
    }
    for (const auto& param : room.params) {
      if (param.value.hash) checks.complain(param.value.hash->position, "rooms hash no passwords");
    }
    for (const api::RequireOptions& one : room.require.items) {
      if (const auto parsed = api::parse_requirement(one.that.value)) {
        check_sources(checks, *parsed, one.that.position);
      }
    }
  }
}

std::vector<Shape> RoomTables::shapes(const RoomOptions& options) {
  Shape shape{.path = options.path.value,
              .host = options.host.value,
              .position = options.path.position,
              .use = options.use,
              .methods = {http::Method::get, http::Method::connect}};  // CONNECT: WebSockets over HTTP/2 (RFC 8441)
  if (options.publish) {
    shape.methods.push_back(http::Method::post);
    // Not known before complete().
    if (options.endpoint.post) shape.of_methods.emplace_back(http::Method::post, options.endpoint.post->use);
  }
  return {std::move(shape)};
}

void RealtimeTable::check(config::Checks& checks) {
  if (!checks.options.rooms) return;
  const RoomsOptions& rooms = *checks.options.rooms;
  checks.check_use(rooms.use, rooms.path.value);
  if (const auto pattern = checks.parse_path(rooms.path); pattern && !pattern->names().empty()) {
    checks.complain(rooms.path.position, "the path of [rooms] has no parameters");
  }
  if (checks.options.room_tables.empty()) {
    checks.complain(rooms.position, "[rooms] needs a [[room]]");
  }
}

std::vector<Shape> RealtimeTable::shapes(const RoomsOptions& options) {
  return {{.path = options.path.value,
           .host = options.host.value,
           .position = options.path.position.line != 0 ? options.path.position : options.position,
           .use = options.use,
           .methods = {http::Method::get, http::Method::connect},
           .upgrades = true}};
}

}  // namespace sluice::app
