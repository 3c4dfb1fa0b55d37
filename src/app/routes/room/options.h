#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/options.h"
#include "base/declare.h"
#include "base/host.h"
#include "gateway/limits/options.h"
#include "ws/options.h"

namespace sluice::app {

// [room.publish]
struct RoomPublishOptions {
  Located<std::string> sql;
  OneOrMore<api::RequireOptions> require;
  std::vector<Located<std::string>> use;
  std::string rate = "10/s";
  ByteSize limit = 64_KiB;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RoomPublishOptions;
    v.field("sql", &Self::sql,
            "The statement that inserts a row: `INSERT INTO messages (room, author, text) VALUES (:id, claim.sub, "
            ":text)`. `:id` is a parameter of the path, `claim.sub` a claim of the client, and every other parameter a "
            "field of the body.",
            {.required = true});
    v.field("require", &Self::require, "Further conditions for publishing, after those of the room.");
    v.field("use", &Self::use, "Further policies for publishing, after those of the room.");
    v.field("rate", &Self::rate,
            "How often a client may publish, by its claim `sub`, or by its address if it has none: `\"10/s\"`, "
            "`\"600/m\"`. More is answered 429.",
            {.check = gateway::limits::RateLimitOptions::check_rate});
    v.field("limit", &Self::limit, "The longest body. A longer one is answered 413.", {.min = 1_B, .max = 16_MiB});
    v.position(&Self::position);
    v.shorthand("sql");
  }
};

// `changes` of [room.history].
struct RoomChangesOptions {
  std::vector<Located<std::string>> tables;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("tables", &RoomChangesOptions::tables,
            "The table whose rows are published. `sluice rooms sql` makes its column `seq` and its triggers.",
            {.min = 1, .max = 1, .required = true});
  }
};

// [room.history]
struct RoomHistoryOptions {
  Located<std::string> query;
  RoomChangesOptions changes;
  std::uint32_t keep = 1000;
  ByteSize keep_bytes = 256_KiB;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RoomHistoryOptions;
    v.field("query", &Self::query,
            "The query of the rows after `:after`, in the order of their column `seq`, with a LIMIT: `SELECT seq, "
            "author, text FROM messages WHERE room = :id AND seq > :after ORDER BY seq LIMIT 200`. Its other "
            "parameters are those of the path.",
            {.required = true});
    v.field("changes", &Self::changes, "Where the rows come from: `{ tables = [\"messages\"] }`.", {.required = true});
    v.field("keep", &Self::keep,
            "How many publications of a room are kept in memory while it has clients. A client that comes back goes on "
            "if it has missed no more than these, and a client that reads slowly may be this far behind.",
            {.min = 1, .max = 100'000});
    v.field("keep_bytes", &Self::keep_bytes, "How many bytes of publications are kept for each room.",
            {.min = 1_KiB, .max = 1_GiB});
    v.position(&Self::position);
  }
};

// [[room]]
struct RoomOptions {
  Located<std::string> path;
  Located<std::string> host;
  Located<std::string> database;  // once loaded, the name of an existing database
  std::optional<RoomPublishOptions> publish;
  RoomHistoryOptions history;
  OneOrMore<api::RequireOptions> require;
  std::vector<Named<api::ParamOptions>> params;
  std::uint32_t clients = 100'000;
  std::uint32_t rooms = 10'000;
  Duration heartbeat = 25s;
  Duration retry = 2s;
  std::vector<std::string> origins;
  ws::Compression compression = ws::Compression::off;
  Duration write_timeout = 30s;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  // Once loaded: the history as GET and publishing as POST.
  api::EndpointOptions endpoint;
  [[nodiscard]] ByteSize longest_message() const {
    constexpr std::uint64_t more = 4096;  // the path, the id and the position
    return {more + (publish ? publish->limit.bytes : 0)};
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RoomOptions;
    v.field("path", &Self::path, "The path of the rooms. Its parameters tell them apart: `/rooms/{id}`.",
            {.required = true});
    v.field("host", &Self::host, host_meaning, {.check = check_host});
    v.field("database", &Self::database,
            "The name of the database, [database.NAME]. If there is only one database, it is the default.");
    v.field("publish", &Self::publish,
            "How clients publish: by `POST` to the room's path, or by a message. Without it they cannot.");
    v.field("history", &Self::history, "The rows of a room.", {.required = true});
    v.field("require", &Self::require,
            "Conditions for following a room and for publishing. They know the path and the client's claims, and are "
            "asked again when their tables change: a client that they refuse then is disconnected.");
    v.field("params", &Self::params, "The parameters of the statements, by name, as for [endpoint.params].");
    v.field("clients", &Self::clients, "The most clients at the same time on each core. Further ones are answered 503.",
            {.min = 1, .max = 10'000'000});
    v.field(
        "rooms", &Self::rooms,
        "The most rooms with clients on each core. Clients of further ones are answered 503, and a WebSocket at such "
        "a room's own path is closed with 1013.",
        {.min = 1, .max = 1'000'000});
    v.field("heartbeat", &Self::heartbeat,
            "After this long without a message, a client is sent one that says nothing, so that it notices a lost "
            "connection.",
            {.min = 10ms, .max = 24h});
    v.field("retry", &Self::retry,
            "How long a client of Server-Sent Events waits before it reconnects. Each is given this time plus up to "
            "half of it.",
            {.min = 0ms, .max = 24h});
    v.field("origins", &Self::origins,
            "The origins of pages that may connect by WebSocket, as for [[websocket]]. `[]`: only pages of the same "
            "host and port.",
            {.check = ws::WebSocketOptions::check_origin});
    v.field("compression", &Self::compression, "permessage-deflate of WebSockets, as for [[websocket]].");
    v.field("write_timeout", &Self::write_timeout,
            "How long a WebSocket client may read nothing before it is disconnected.", {.min = 1ms, .max = 24h});
    v.field("use", &Self::use, "The names of the policies ([policy.NAME]) that apply to a request, in this order.");
    v.field("public", &Self::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Self::position);
  }
};

// [rooms]
struct RoomsOptions {
  Located<std::string> path = {"/realtime"};
  Located<std::string> host;
  std::uint32_t rooms = 100;
  std::uint32_t clients = 100'000;
  Duration heartbeat = 25s;
  std::vector<std::string> origins;
  ws::Compression compression = ws::Compression::off;
  Duration write_timeout = 30s;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  ByteSize longest_message;  // once loaded: of all rooms

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RoomsOptions;
    v.field("path", &Self::path, "The path where WebSocket clients connect.");
    v.field("host", &Self::host, host_meaning, {.check = check_host});
    v.field("rooms", &Self::rooms, "The most rooms that one client may be in.", {.min = 1, .max = 10'000});
    v.field("clients", &Self::clients, "The most clients at the same time on each core. Further ones are answered 503.",
            {.min = 1, .max = 10'000'000});
    v.field("heartbeat", &Self::heartbeat, "As for [[room]].", {.min = 10ms, .max = 24h});
    v.field("origins", &Self::origins, "The origins of pages that may connect, as for [[websocket]].",
            {.check = ws::WebSocketOptions::check_origin});
    v.field("compression", &Self::compression, "permessage-deflate, as for [[websocket]].");
    v.field("write_timeout", &Self::write_timeout, "How long a client may read nothing before it is disconnected.",
            {.min = 1ms, .max = 24h});
    v.field("use", &Self::use,
            "The names of the policies that apply when a client connects. The policies of a room apply when it "
            "subscribes or publishes, to the credentials with which it has connected.");
    v.field("public", &Self::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::app
