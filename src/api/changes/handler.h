#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "api/changes/feed.h"
#include "api/changes/options.h"
#include "api/failures.h"
#include "api/require.h"
#include "api/role.h"
#include "base/log.h"
#include "core/task.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "sql/database.h"

namespace sluice::api::changes {

// The prepared changes of one endpoint. Immutable, shared by all cores.
struct Plan {
  std::string path;  // the endpoint's path plus "/changes"
  Options options;
  QueryNames query;                        // parameters that the requirements use
  std::shared_ptr<const RolePlan> role;    // null if it runs as the login
  std::shared_ptr<const Guards> guards;    // null if nothing is required
  std::shared_ptr<const ErrorMap> errors;  // null if codes get the default answers
  // With a role: the query that runs before a stream begins, with all parameters NULL. It returns no rows. It fails for
  // a role that may not run the endpoint's GET.
  std::optional<sql::Statement> permission;
};

// The text of Plan::permission for an endpoint's `get`, which may be empty.
[[nodiscard]] std::string permission_statement(std::string_view get);

// One core's handler of GET /x/changes: an endless stream of the feed's events.
class Handler final : public http::Handler {
 public:
  // `trouble`: as for Endpoint.
  Handler(std::shared_ptr<const Plan> plan, Feed& feed, sql::Database& database, core::Reactor& reactor,
          TroubleLog* trouble = nullptr);

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  class Stream;

  core::Task<http::Response> answer_if_allowed(http::Exchange& exchange);
  [[nodiscard]] core::Task<std::optional<http::Response>> ask_permission(std::span<const sql::Setting> settings);
  [[nodiscard]] http::Response answer(const http::Exchange& exchange);
  [[nodiscard]] Duration retry();

  std::shared_ptr<const Plan> plan_;
  Feed& feed_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failure_;
  std::minstd_rand random_;
};

}  // namespace sluice::api::changes
