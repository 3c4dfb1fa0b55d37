#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/batch/call.h"
#include "api/batch/options.h"
#include "api/endpoint.h"
#include "api/failures.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "core/reactor.h"
#include "http/binding.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"

namespace sluice::api::batch {

// The prepared [batch]. Immutable, shared by all cores.
struct Plan {
  // An endpoint that may be called. Everything in it belongs to the configuration's plan and outlives this.
  struct Route {
    const http::Pattern* pattern = nullptr;
    std::string host = {};                    // the route's host; empty for every host
    std::shared_ptr<const EndpointPlan> get;  // null if it has no GET
    std::vector<std::shared_ptr<const WritePlan>> writes;
    std::vector<std::shared_ptr<const SetWritePlan>> sets;  // PUT and PATCH of sets, which a batch cannot call
    const EndpointOptions* options = nullptr;
    std::uint16_t id = 0;  // the route's own id, for counters
  };

  Options options;
  std::vector<Route> routes;
  CallLimits limits;
  std::vector<std::string> own_fields;     // that no call may set, in lower case
  std::uint64_t body_limit = UINT64_MAX;   // bytes of the batch's own body; a longer one gets a 413
  std::shared_ptr<const ErrorMap> errors;  // for errors of the commit; null if codes get the default answers
};

// POST of several calls of endpoints, which succeed together or not at all. Each call is handled like a separate
// request, but all run in one transaction, and the client's credentials are those of the batch's request. Used by one
// core.
class Batch final : public http::Handler {
 public:
  struct Filters {
    http::Binding::Filters of_route;
    std::vector<std::pair<http::Method, http::Binding::Filters>> of_methods;  // instead of those of the route
  };
  // `filters`: those of each route, in the order of the routes. `trouble` and `write_trouble`: as for Endpoint
  // and WriteEndpoint. All outlive this.
  Batch(const Plan& plan, sql::Database& database, std::vector<Filters> filters, core::Reactor& reactor,
        TroubleLog* trouble = nullptr, TroubleLog* write_trouble = nullptr);
  ~Batch() override;

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override { return run(exchange); }

 private:
  class Lane;
  class Isolations;
  struct Answer;

  [[nodiscard]] core::Task<http::Response> run(http::Exchange& exchange);
  [[nodiscard]] core::Task<Answer> attempt(Lane& lane, const http::Request& request, const std::vector<Call>& calls,
                                           Instant deadline);
  [[nodiscard]] std::unique_ptr<Lane> take_lane();

  const Plan& plan_;
  sql::Database& database_;
  const std::vector<Filters> filters_;
  core::Reactor& reactor_;
  TroubleLog* trouble_;
  TroubleLog* write_trouble_;
  Failures read_failures_;  // of a batch that only reads
  Failures write_failures_;
  std::unique_ptr<Isolations> isolations_;  // null if no endpoint sets an isolation
  std::vector<std::unique_ptr<Lane>> spare_;
  std::uint32_t running_ = 0;
};

}  // namespace sluice::api::batch
