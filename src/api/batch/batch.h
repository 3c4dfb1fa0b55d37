#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/batch/call.h"
#include "api/batch/options.h"
#include "api/endpoint.h"
#include "api/failures.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "core/reactor.h"
#include "http/filter.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"

namespace sluice::api::batch {

// [batch] made ready. Immutable, shared by all cores.
struct Plan {
  // An endpoint that may be called; everything is the configuration's plan's and outlives this.
  struct Route {
    const http::Pattern* pattern = nullptr;
    std::shared_ptr<const EndpointPlan> get;  // null: it has none
    std::vector<std::shared_ptr<const WritePlan>> writes;
    std::vector<std::shared_ptr<const SetWritePlan>> sets;  // which cannot be called
    const EndpointOptions* options = nullptr;
  };

  Options options;
  std::vector<Route> routes;
  CallLimits limits;
  std::vector<std::string> own_fields;     // what own_fields() says of the endpoints
  std::uint64_t body_limit = UINT64_MAX;   // bytes, of the batch's own body: 413
  std::shared_ptr<const ErrorMap> errors;  // of what fails when all is committed; null: codes are answered as ever
};

// POST of several calls of endpoints, that are done together or not at all. Each is handled as if it had come alone,
// but in one transaction, and with what the batch's own request says of the client. One core's.
class Batch final : public http::Handler {
 public:
  // `filters`: in front of the routes, in their order. `trouble`: as for Endpoint. All outlive this.
  Batch(const Plan& plan, sql::Database& database, std::vector<std::vector<http::Filter*>> filters,
        core::Reactor& reactor, TroubleLog* trouble = nullptr);
  ~Batch() override;

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override { return run(request); }

 private:
  class Lane;
  class Isolations;
  struct Answer;

  [[nodiscard]] core::Task<http::Response> run(http::Request& request);
  [[nodiscard]] core::Task<Answer> attempt(Lane& lane, const http::Request& request, const std::vector<Call>& calls,
                                           Instant deadline);
  [[nodiscard]] std::unique_ptr<Lane> take_lane();

  const Plan& plan_;
  sql::Database& database_;
  const std::vector<std::vector<http::Filter*>> filters_;
  core::Reactor& reactor_;
  TroubleLog* trouble_;
  Failures failures_;
  std::unique_ptr<Isolations> isolations_;  // null: no endpoint says one
  std::vector<std::unique_ptr<Lane>> spare_;
  std::uint32_t running_ = 0;
};

}  // namespace sluice::api::batch
