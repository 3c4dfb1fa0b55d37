#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
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
#include "gateway/jwt/key_source.h"
#include "gateway/jwt/keys.h"
#include "gateway/limits/shared.h"
#include "gateway/proxy/upstream.h"
#include "net/tls/context.h"
#include "sql/open.h"
#include "sql/sqlite/commit_observers.h"
#include "sql/statement_ids.h"

namespace sluice::app {

class Site;
struct Recording;

// One route, or several that belong together, made ready by a kind of route. Immutable, shared by all cores. It owns
// its options, because bindings keep it alive longer than its plan.
class Route : public std::enable_shared_from_this<Route> {
 public:
  // The parts that [openapi] publishes.
  struct Described {
    std::vector<api::openapi::Resource> resources;
    std::vector<api::openapi::ResidentResource> residents;
    std::optional<api::openapi::BatchResource> batch;
  };
  using Id = std::uint16_t;
  // Identifies a route across reloads as long as it does not change.
  struct Instance {};

  virtual ~Route() = default;
  // Adds the handlers to the site of one core. Throws if the route cannot be served.
  virtual void build(Site& site) const = 0;
  virtual void describe(Described&) const {}
  // Adds the routes that a batch on this database may call, and returns true, if there are any. `database`: index in
  // options.databases.
  virtual bool add_call(std::size_t /*database*/, std::vector<api::batch::Plan::Route>&) const { return false; }

  // Routes of two plans can only be the same if they have the same id.
  [[nodiscard]] virtual Id id() const = 0;
  // Whether clients of `before`, a route of an earlier plan, are served as before. If so, the route gets its instance.
  [[nodiscard]] virtual bool is_same(const Route& before) const = 0;
  std::shared_ptr<const Instance> instance = std::make_shared<const Instance>();  // set before the plan is served
};

// A configuration made ready to serve: paths are parsed, and databases have described the statements. Shared by all
// cores. Immutable once the cores have it; the shared parts of databases and the first rows of tables are set before.
struct Plan {
  // The id of a route is its index in `names`.
  using RouteId = Route::Id;
  // The part of a database that all cores share.
  //
  // A reload takes over the unchanged databases, feeds and tables of the previous plan as the same objects. Their
  // addresses identify them on every core.
  struct Database {
    // Identifies SQLite's file; zeros for PostgreSQL.
    struct File {
      std::uint64_t device = 0;
      std::uint64_t inode = 0;
      bool operator==(const File&) const = default;
    };

    explicit Database(const std::string& name)
        : trouble("database " + name), write_trouble("database " + name + ", writing") {}

    File file;
    bool writes = false;                              // SQLite: this process may write to the database
    std::shared_ptr<sql::CommitObservers> observers;  // of the file; shared by all databases with this file
    std::shared_ptr<sql::StatementIds> ids = std::make_shared<sql::StatementIds>();
    std::shared_ptr<sql::SharedDatabase> shared;  // null before open_shared_parts(), and if nothing is shared
    // Separate, because writes can fail while reads succeed: the disk is full, or another program holds the lock.
    TroubleLog trouble;
    TroubleLog write_trouble;
  };
  // The policies that a route uses, without their keys: new keys reach a policy that stays.
  using Policies = std::vector<Named<gateway::PolicyOptions>>;
  // A feed of changes of an endpoint. A reload keeps its streams if the feed, `require` and the policies are unchanged.
  struct Feed {
    std::string path;
    std::string boot;  // the prefix of its event ids
    api::changes::Options options;
    OneOrMore<api::RequireOptions> require;
    Policies policies;
    std::shared_ptr<Database> database;
  };
  // A WebSocket endpoint. A reload keeps its connections under the same conditions.
  struct WebSocket {
    ws::WebSocketOptions options;
    Policies policies;
  };
  // A route to an upstream. A reload keeps its tunnels under the same conditions.
  struct Proxied {
    gateway::RouteOptions options;
    Policies policies;
  };
  struct Resident {
    api::resident::ResidentOptions options;
    std::shared_ptr<const api::resident::Plan> plan;
    std::shared_ptr<Database> database;
    // The first version, until the cores have it.
    api::resident::TableVersion first;
    Mark mark;
  };

  // An upstream with the same options and the same `tls` files keeps its connection pools and state. If only its
  // servers or their balancing differ, the servers that stay keep theirs.
  [[nodiscard]] std::expected<void, gateway::TlsProblem> add_upstream(const gateway::UpstreamOptions& upstream,
                                                                      const Plan* before);
  // Fetched keys are kept if the policy has the same options for them.
  [[nodiscard]] std::expected<void, gateway::jwt::KeyProblem> add_key_source(const gateway::jwt::Options& policy,
                                                                             unsigned cores, const Plan* before);
  // The key source of a policy; null if its keys are not fetched.
  [[nodiscard]] const gateway::jwt::SharedKeySource* key_source_of(const gateway::PolicyOptions& policy) const;
  // The index of the upstream that a policy of type "auth-request" uses.
  [[nodiscard]] std::optional<std::size_t> upstream_of(const gateway::PolicyOptions& policy) const;
  // Limits keep their counts if they count by the same keys, even if the allowed numbers differ.
  void add_limits(unsigned cores, const Plan* before);
  // The name of a route, for metrics and logs, is its pattern as written. A name of the previous plan keeps its id.
  [[nodiscard]] RouteId add_name(std::string name);
  // Returns a new prefix that distinguishes a feed's event ids from those of all other feeds.
  [[nodiscard]] static std::string new_boot();
  // `before`: the plan whose feed is taken over if it is the same; may be null.
  std::shared_ptr<const Feed> add_feed(Feed feed, const Plan* before);
  std::shared_ptr<const WebSocket> add_websocket(WebSocket websocket, const Plan* before);
  std::shared_ptr<const Proxied> add_proxied(Proxied proxied, const Plan* before);
  [[nodiscard]] bool has_proxied(const void* wanted) const;
  [[nodiscard]] Policies policies(const std::vector<Located<std::string>>& use) const;
  // The resident table that a policy reads; null if it reads none.
  [[nodiscard]] std::shared_ptr<Resident> table_of(const gateway::PolicyOptions& policy) const;

  Options options;
  std::vector<std::shared_ptr<Route>> routes;
  std::vector<std::string> names = {""};  // by route id, also of earlier configurations; [0]: requests without a route
  std::vector<bool> is_served = {true};   // by route id; ids beyond its end are not served
  bool names_are_full = false;            // a route got no id because all are used
  std::vector<std::shared_ptr<Database>> databases;          // by index in the options
  std::vector<std::shared_ptr<const Recording>> recordings;  // by index in the options, for the next plan; null: SQLite
  std::vector<std::shared_ptr<const Feed>> feeds;
  std::vector<std::shared_ptr<const WebSocket>> websockets;
  std::vector<std::shared_ptr<gateway::SharedUpstream>> upstreams;  // by index in the options
  std::vector<std::shared_ptr<const Proxied>> proxied;
  std::vector<std::shared_ptr<Resident>> residents;
  std::uint64_t most_body = 0;  // bytes: the longest body that a route allows, if above the server's limit
  std::shared_ptr<const RequestLogPlan> request_log;              // null: off
  std::vector<std::shared_ptr<const gateway::jwt::KeySet>> keys;  // by index in options.policies; null: no keys
  std::vector<std::shared_ptr<gateway::jwt::SharedKeySource>> key_sources;
  std::vector<std::shared_ptr<gateway::limits::Shared>> limits;  // by index in options.policies; null: not a limit
  std::shared_ptr<const net::tls::ServerContext> tls;            // null without [server.tls]
  Io io;                                                         // how the cores will wait for sockets
  std::vector<std::string> warnings;                             // problems that do not prevent serving
};

}  // namespace sluice::app
