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

// A prepared PUT or PATCH of a set: the body's rows become the content of a part of a table. Immutable, shared by all
// cores.
struct SetWritePlan {
  // Takes the columns and their sources from `options`. `set` has been prepared with set_options().
  SetWritePlan(http::Method method, const EndpointOptions& endpoint, const MethodOptions& options,
               const http::Pattern& pattern, sql::SetPlan set);
  // Takes the types of the columns, which decide how values are written.
  void take_types(const sql::Table& table);
  [[nodiscard]] std::string_view credential() const;  // as for log_text()

  std::string path;
  std::string table_name;
  http::Method method{};
  std::optional<Duration> timeout;
  sql::Isolation isolation{};
  std::uint32_t retries = 0;
  std::uint64_t body_limit = UINT64_MAX;  // bytes; a longer body gets a 413
  std::uint64_t more_body = 0;            // bytes by which body_limit exceeds the server's limit
  RowLimits row_limits;
  bool takes_object = false;       // a body may also be one object or a form
  sql::DeletionLimit max_deleted;  // default for requests without `max-deleted`
  sql::SetPlan set;
  Shape shape;  // the shape of the body
  std::vector<Echo> echoes;
  std::vector<Source> staged;  // in the order of SetPlan::staged
  std::vector<Source> shared;  // in the order of SetPlan::parameters
  QueryNames query;
  std::shared_ptr<const RolePlan> role;                 // null: the statements run as the connection's login
  std::shared_ptr<const Guards> guards;                 // null if nothing is required
  std::shared_ptr<const ErrorMap> errors;               // null: all database errors get the default answers
  std::shared_ptr<const sql::Constraints> constraints;  // of the database; null if none are known
  std::shared_ptr<const schema::Schema> schema;         // of each row; null if absent
};

// The options for Database::stage().
[[nodiscard]] sql::SetOptions set_options(http::Method method, const MethodOptions& options,
                                          const http::Pattern& pattern);

// One core's handler of a set. It reads the body as it arrives and keeps only the beginning of a long one in memory.
// The database stages the rows until the last one has arrived, and then writes them in one transaction. With `?dry-run`
// the answer says what would change. `?max-deleted` limits how many rows the request may delete.
class SetEndpoint final : public http::Handler {
 public:
  SetEndpoint(std::shared_ptr<const SetWritePlan> plan, sql::Database& database, core::Reactor& reactor,
              TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  [[nodiscard]] core::Task<http::Response> run(http::Exchange& exchange);

  std::shared_ptr<const SetWritePlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failures_;
};

}  // namespace sluice::api
