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
#include "api/openapi/document.h"
#include "api/resident/resident.h"
#include "app/io.h"
#include "app/options.h"
#include "app/request_log.h"
#include "gateway/jwt/keys.h"
#include "net/tls/context.h"

namespace sluice::app {

class Site;

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

// A configuration made ready to serve: paths parsed, statements described by their databases. Immutable, shared by all
// cores.
struct Plan {
  // Ids of routes are their indexes in `names`.
  using RouteId = std::uint16_t;
  // What an endpoint tells of changes. The plan's address stands for the feed, on every core.
  struct Feed {
    std::shared_ptr<const api::changes::Plan> plan;
    std::size_t database = 0;  // index in options.databases
  };
  // Likewise for a table.
  struct Resident {
    std::shared_ptr<const api::resident::Plan> plan;
    std::size_t database = 0;  // index in options.databases
    std::optional<api::resident::RefreshOptions> refresh;
  };

  // A route's name is the pattern as it was written, for metrics and logs. It had its id in the plan before too.
  [[nodiscard]] RouteId add_name(std::string name);

  Options options;
  std::vector<std::unique_ptr<const Route>> routes;
  std::vector<std::string> names = {""};  // of routes, earlier ones too; the first stands for requests that match none
  std::string boot;                       // what the ids of events begin with
  std::vector<Feed> feeds;
  std::vector<Resident> residents;
  std::uint64_t most_body = 0;  // bytes: the longest body that a route asks for, where it is over the server's limit
  std::optional<RequestLogPlan> request_log;
  std::vector<std::shared_ptr<const gateway::jwt::KeySet>> keys;  // by index in options.policies; null: it has none
  std::shared_ptr<const net::tls::ServerContext> tls;             // null: there is no [server.tls]
  Io io;                                                          // what the cores are to wait with
  std::vector<std::string> warnings;                              // what works and may still be a mistake
};

}  // namespace sluice::app
