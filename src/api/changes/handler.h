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

// The changes of one endpoint made ready. Immutable, shared by all cores.
struct Plan {
  std::string path;  // of the endpoint, and "/changes"
  Options options;
  QueryNames query;                        // of what is required
  std::shared_ptr<const RolePlan> role;    // null: it runs as the login
  std::shared_ptr<const Guards> guards;    // null: nothing is required
  std::shared_ptr<const ErrorMap> errors;  // null: codes are answered as ever
  // With a role: what is asked of the database before a stream begins, all parameters NULL. It returns no rows, and is
  // refused to whom the endpoint's GET would be refused.
  std::optional<sql::Statement> permission;
};

// What Plan::permission is prepared as, of an endpoint's `get`, which may be empty.
[[nodiscard]] std::string permission_statement(std::string_view get);

// One core's handler of GET /x/changes: a stream of the feed's events, without an end.
class Handler final : public http::Handler {
 public:
  // `trouble`: of the database, as for an endpoint.
  Handler(std::shared_ptr<const Plan> plan, Feed& feed, sql::Database& database, core::Reactor& reactor,
          TroubleLog* trouble = nullptr);

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  class Stream;

  core::Task<http::Response> answer_if_allowed(http::Request& request);
  [[nodiscard]] core::Task<std::optional<http::Response>> ask_permission(std::span<const sql::Setting> settings);
  [[nodiscard]] http::Response answer(const http::Request& request);
  [[nodiscard]] Duration retry();

  std::shared_ptr<const Plan> plan_;
  Feed& feed_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failure_;
  std::minstd_rand random_;
};

}  // namespace sluice::api::changes
