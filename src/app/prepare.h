#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "api/batch/batch.h"
#include "api/changes/handler.h"
#include "api/endpoint.h"
#include "api/openapi/handler.h"
#include "api/resident/resident.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "app/config/load.h"
#include "app/io.h"
#include "app/request_log.h"
#include "gateway/jwt/keys.h"
#include "http/router.h"
#include "net/tls/context.h"

namespace sluice::app {

// A configuration made ready to serve: paths parsed, statements described by their databases. Immutable, shared by all
// cores.
struct Plan {
  // Ids of routes are their indexes in `routes`.
  using RouteId = std::uint16_t;
  struct Endpoint {
    http::Pattern pattern;
    RouteId route = 0;
    RouteId changes_route = 0;
    std::size_t index = 0;                         // in options.endpoints
    std::size_t database = 0;                      // index in options.databases
    std::shared_ptr<const api::EndpointPlan> get;  // null: it has none
    std::vector<std::shared_ptr<const api::WritePlan>> writes;
    std::vector<std::shared_ptr<const api::SetWritePlan>> sets;
    std::vector<std::pair<http::Method, sql::Table>> tables;  // of the methods that name one
    std::shared_ptr<const api::changes::Plan> changes;        // null: it does not tell of any
    // For [openapi]: of methods' columns, whether they are never NULL.
    std::vector<std::pair<http::Method, std::vector<bool>>> never_null;

    [[nodiscard]] bool answers() const { return get != nullptr || !writes.empty() || !sets.empty(); }
    // Precondition: it tells of changes.
    [[nodiscard]] http::Pattern changes_pattern() const {
      http::Pattern result = pattern;
      result.segments.push_back({http::Pattern::Kind::literal, "changes"});
      return result;
    }
  };
  struct Resident {
    http::Pattern pattern;
    RouteId route = 0;
    RouteId key_route = 0;
    std::size_t index = 0;     // in options.residents
    std::size_t database = 0;  // index in options.databases
    std::shared_ptr<const api::resident::Plan> plan;
    std::vector<bool> never_null;  // for [openapi]: of its columns

    // Precondition: it has a key.
    [[nodiscard]] http::Pattern key_pattern() const {
      http::Pattern result = pattern;
      result.segments.push_back({http::Pattern::Kind::segment, "key"});
      return result;
    }
  };
  struct Files {
    http::Pattern pattern;
    RouteId route = 0;
    std::size_t index = 0;  // in options.files
  };
  struct WebSocket {
    http::Pattern pattern;
    RouteId route = 0;
    std::size_t index = 0;  // in options.websockets
  };

  // Whether an endpoint tells of changes of the database of this index.
  [[nodiscard]] bool tells_of(std::size_t database) const;

  // A route's name is the pattern as it was written, for metrics and logs.
  [[nodiscard]] RouteId add_route(std::string name) {
    routes.push_back(std::move(name));
    return static_cast<RouteId>(routes.size() - 1);
  }

  Options options;
  std::vector<Endpoint> endpoints;
  std::vector<std::size_t> changes;  // indexes of the endpoints that tell of changes: one feed each
  std::vector<Resident> residents;
  std::vector<Files> files;
  std::vector<WebSocket> websockets;
  std::optional<RequestLogPlan> request_log;
  std::optional<api::batch::Plan> batch;
  std::size_t batch_database = 0;  // index in options.databases
  RouteId batch_route = 0;
  std::shared_ptr<const api::openapi::Published> openapi;  // null: there is no [openapi]
  RouteId openapi_route = 0;
  std::vector<std::shared_ptr<const gateway::jwt::KeySet>> keys;  // by index in options.policies
  std::shared_ptr<const net::tls::ServerContext> tls;             // null: there is no [server.tls]
  Io io;                                                          // what the cores are to wait with
  std::vector<std::string> warnings;                              // what works and may still be a mistake
  std::vector<std::string> routes;  // names; the first stands for requests that match no route
};

// Why there is no plan: text for the operator, and what the program exits with.
struct Refusal {
  std::string text;
  int exit_code = 0;
};

// Reaches every database and describes every statement. A wrong column is a configuration error that names its place in
// the file; a database that cannot be reached is a failure, where `patient` after its `start_timeout`.
[[nodiscard]] std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient);

}  // namespace sluice::app
