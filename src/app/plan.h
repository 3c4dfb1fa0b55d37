#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/batch/batch.h"
#include "api/changes/handler.h"
#include "api/changes/options.h"
#include "api/openapi/document.h"
#include "api/resident/resident.h"
#include "app/io.h"
#include "app/options.h"
#include "app/refresher.h"
#include "app/request_log.h"
#include "base/log.h"
#include "gateway/jwt/keys.h"
#include "gateway/proxy/upstream.h"
#include "net/tls/context.h"
#include "sql/open.h"
#include "sql/statement_ids.h"

namespace sluice::app {

class Site;
struct Recording;

// What a kind of route has made ready: one route, or several that belong together. Immutable, shared by all cores.
class Route {
 public:
  // What [openapi] publishes.
  struct Described {
    std::vector<api::openapi::Resource> resources;
    std::vector<api::openapi::ResidentResource> residents;
    std::optional<api::openapi::BatchResource> batch;
  };

  virtual ~Route() = default;
  // Adds its handlers to the site of one core. Throws what cannot be served.
  virtual void build(Site& site) const = 0;
  virtual void describe(Described&) const {}
  // What a batch on the database of this index may call.
  virtual void add_call(std::size_t /*database*/, std::vector<api::batch::Plan::Route>&) const {}
};

// A configuration made ready to serve: paths parsed, statements described by their databases. Shared by all
// cores, for which it is immutable: what databases share, and the first rows of tables, are set before the cores have
// it.
struct Plan {
  // Ids of routes are their indexes in `names`.
  using RouteId = std::uint16_t;
  // What all cores share of a database.
  //
  // A reload takes over the databases, feeds and tables of the plan before that are as they were: the same object,
  // whose address stands for it on every core.
  struct Database {
    // Of SQLite's file; zeros for PostgreSQL.
    struct File {
      std::uint64_t device = 0;
      std::uint64_t inode = 0;
      bool operator==(const File&) const = default;
    };

    explicit Database(const std::string& name) : trouble("database " + name) {}

    File file;
    bool writes = false;  // SQLite: something of this process may write to it
    std::shared_ptr<sql::StatementIds> ids = std::make_shared<sql::StatementIds>();
    std::shared_ptr<sql::SharedDatabase> shared;  // null until open_shared_parts(), and where nothing is shared
    TroubleLog trouble;
  };
  // Those that a route uses.
  using Policies = std::vector<Named<gateway::PolicyOptions>>;
  // What an endpoint tells of changes. Streams go on for as long as it, and what they were let in by, stays.
  struct Feed {
    std::string path;
    std::string boot;  // what the ids of its events begin with
    api::changes::Options options;
    OneOrMore<api::RequireOptions> require;
    Policies policies;
    std::shared_ptr<Database> database;
  };
  // Likewise its conversations.
  struct WebSocket {
    ws::WebSocketOptions options;
    Policies policies;
  };
  struct Resident {
    api::resident::ResidentOptions options;
    std::shared_ptr<const api::resident::Plan> plan;
    std::shared_ptr<Database> database;
    // What is served first, until the cores have it.
    api::resident::Edition first;
    Mark mark;
  };

  // Its pools and what they have learned go on for as long as it says the same.
  void add_upstream(const gateway::UpstreamOptions& upstream, const Plan* before);
  // A route's name is the pattern as it was written, for metrics and logs. It had its id in the plan before too.
  [[nodiscard]] RouteId add_name(std::string name);
  // What tells the ids of a feed's events from those of all other feeds.
  [[nodiscard]] static std::string new_boot();
  // `before`: from which it is taken over where it has the same; may be null.
  std::shared_ptr<const Feed> add_feed(Feed feed, const Plan* before);
  std::shared_ptr<const WebSocket> add_websocket(WebSocket websocket, const Plan* before);
  [[nodiscard]] Policies policies(const std::vector<Located<std::string>>& use) const;

  Options options;
  std::vector<std::unique_ptr<const Route>> routes;
  std::vector<std::string> names = {""};  // of routes, earlier ones too; the first stands for requests that match none
  std::vector<bool> is_served = {true};   // by route's id; shorter than `names`: the rest are not
  std::vector<std::shared_ptr<Database>> databases;          // by index in the options
  std::vector<std::shared_ptr<const Recording>> recordings;  // likewise, for the next plan; null: SQLite
  std::vector<std::shared_ptr<const Feed>> feeds;
  std::vector<std::shared_ptr<const WebSocket>> websockets;
  std::vector<std::shared_ptr<gateway::SharedUpstream>> upstreams;  // by index in the options
  std::vector<std::shared_ptr<Resident>> residents;
  std::uint64_t most_body = 0;  // bytes: the longest body that a route asks for, where it is over the server's limit
  std::shared_ptr<const RequestLogPlan> request_log;              // null: off
  std::vector<std::shared_ptr<const gateway::jwt::KeySet>> keys;  // by index in options.policies; null: it has none
  std::shared_ptr<const net::tls::ServerContext> tls;             // null: there is no [server.tls]
  Io io;                                                          // what the cores are to wait with
  std::vector<std::string> warnings;                              // what works and may still be a mistake
};

}  // namespace sluice::app
