#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/error_map.h"
#include "api/failures.h"
#include "api/negotiation.h"
#include "api/options.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/role.h"
#include "api/source.h"
#include "api/version.h"
#include "base/log.h"
#include "core/reactor.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/encode/encoder.h"

namespace sluice::api::list {
struct Plan;
}

namespace sluice::api {

// A prepared endpoint: its statement and the source of each parameter. Immutable, shared by all cores.
struct EndpointPlan {
  // `statement` has been prepared with the parameters that declared_parameters() gives.
  EndpointPlan(const EndpointOptions& options, const http::Pattern& pattern, sql::Statement statement);

  std::string path;
  bool object = false;
  sql::FormatSet formats;
  bool file = false;  // its only row says which file is the answer; see FileEndpoint
  std::optional<Duration> timeout;
  std::string cache_control;
  sql::Statement statement;
  std::vector<Source> sources;  // in the order of the statement's parameters
  QueryNames query;
  bool from_client = false;  // at least one value comes from the request
  Layouts layouts;
  std::optional<Version> version;          // the ETag of an object
  std::shared_ptr<const RolePlan> role;    // null if it runs as the login
  std::shared_ptr<const Guards> guards;    // null if nothing is required
  std::shared_ptr<const ErrorMap> errors;  // null if codes get the default answers
  std::shared_ptr<const list::Plan> list;  // null: clients ask for nothing but the parameters of the statement

  [[nodiscard]] std::string_view credential() const;  // as for log_text()
};

// For the log: the statement returned several rows where at most one is allowed.
[[nodiscard]] sql::Error several_rows();

// One core's handler of an endpoint: binds the request's values, runs the statement and encodes its rows. A result that
// the database returns at once is sent whole with its length. A longer one is streamed.
class Endpoint final : public http::Handler {
 public:
  // `trouble`: the log for a database that cannot be reached. If null, each such failure is logged.
  Endpoint(std::shared_ptr<const EndpointPlan> plan, sql::Database& database, core::Reactor& reactor,
           TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failure_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  class RowsBody;
  using Cursor = std::unique_ptr<sql::Cursor>;

  [[nodiscard]] core::Async<http::Response> query(http::Exchange& exchange, const Preference& preference);
  core::Task<http::Response> query_if_allowed(http::Exchange& exchange, Preference preference);
  core::Task<http::Response> wait_for_cursor(Preference preference, core::Async<sql::Result<Cursor>> querying);
  core::Task<http::Response> wait_for_rows(Preference preference, Cursor cursor,
                                           core::Async<sql::Result<sql::Block>> reading);
  core::Task<http::Response> check_object(Preference preference, Cursor cursor, sql::Block first);
  [[nodiscard]] http::Response answer(const Preference& preference, Cursor cursor,
                                      const sql::Result<sql::Block>& first);
  [[nodiscard]] http::Response answer_object(const Preference& preference, const sql::Block& block);
  [[nodiscard]] std::optional<http::Response> refuse_by_version(const Preference& preference, const sql::Block& block,
                                                                std::string& tag) const;
  [[nodiscard]] const sql::Layout& layout_of(const Preference& preference, std::span<const sql::Column> columns);
  [[nodiscard]] const sql::Layout& layout_of_changed(const Preference& preference,
                                                     std::span<const sql::Column> columns);
  [[nodiscard]] http::Response head_of_answer(const Preference& preference) const;
  [[nodiscard]] http::Response failed(const sql::Error& error) const;

  struct Changed {
    const sql::Column* columns;
    Layouts layouts;  // created at the first use
  };

  std::shared_ptr<const EndpointPlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failure_;
  Binder binder_;
  std::vector<sql::Argument> arguments_;  // until they are bound
  // Layouts for columns that differ from the plan's because the table has changed since the server started. Each entry
  // belongs to one column list. The database owns the lists.
  std::vector<Changed> changed_;
};

}  // namespace sluice::api
