#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/body/row_reader.h"
#include "api/error_map.h"
#include "api/failures.h"
#include "api/options.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/role.h"
#include "api/schema/row_check.h"
#include "api/source.h"
#include "core/reactor.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/set/constraints.h"
#include "sql/set/set.h"

namespace sluice::api {

// PUT or PATCH of a set, made ready: the body's rows become the contents of a part of a table. Immutable, shared by all
// cores.
struct SetWritePlan {
  // `columns`: those of `options`, and where they come from. `set` has been prepared with set_options().
  SetWritePlan(http::Method method, const EndpointOptions& endpoint, const MethodOptions& options,
               const http::Pattern& pattern, sql::SetPlan set);
  // What the table's columns make of values.
  void take_types(const sql::Table& table);
  [[nodiscard]] std::string_view credential() const;  // as for log_text()

  std::string path;
  std::string table_name;
  http::Method method{};
  std::optional<Duration> timeout;
  sql::Isolation isolation{};
  std::uint32_t retries = 0;
  std::uint64_t body_limit = UINT64_MAX;  // bytes: 413
  std::uint64_t more_body = 0;            // by how much that is beyond the server's own
  RowLimits row_limits;
  bool takes_object = false;       // a body may be one object, or a form, in place of a list
  sql::DeletionLimit max_deleted;  // unless the request says another one
  sql::SetPlan set;
  Shape shape;  // of the body
  std::vector<Echo> echoes;
  std::vector<Source> staged;  // in the order of SetPlan::staged
  std::vector<Source> shared;  // in the order of SetPlan::parameters
  QueryNames query;
  std::shared_ptr<const RolePlan> role;                 // null: it runs as the login
  std::shared_ptr<const Guards> guards;                 // null: nothing is required
  std::shared_ptr<const ErrorMap> errors;               // null: codes are answered as ever
  std::shared_ptr<const sql::Constraints> constraints;  // of the database; null: none is known
  std::shared_ptr<const schema::Schema> schema;         // of each row; null: none
};

// What Database::stage() is prepared from.
[[nodiscard]] sql::SetOptions set_options(http::Method method, const MethodOptions& options,
                                          const http::Pattern& pattern);

// One core's handler of a set. The body is read as it comes, and of a long one no more than its beginning is held: its
// rows wait in the database for the last of them, and are then written in one transaction. `?dry-run` answers what
// would change. `?max-deleted` says how many rows the request may delete.
class SetEndpoint final : public http::Handler {
 public:
  SetEndpoint(std::shared_ptr<const SetWritePlan> plan, sql::Database& database, core::Reactor& reactor,
              TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  [[nodiscard]] core::Task<http::Response> run(http::Request& request);

  std::shared_ptr<const SetWritePlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failures_;
};

}  // namespace sluice::api
