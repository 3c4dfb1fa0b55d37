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

namespace sluice::api {

// An endpoint made ready: its statement prepared, each parameter's source known. Immutable, shared by all cores.
struct EndpointPlan {
  // `statement` has been prepared with the parameters that declared_parameters() gives.
  EndpointPlan(const EndpointOptions& options, const http::Pattern& pattern, sql::Statement statement);

  std::string path;
  bool object = false;
  sql::FormatSet formats;
  bool file = false;  // its only row says which file is the answer: FileEndpoint
  std::optional<Duration> timeout;
  std::string cache_control;
  sql::Statement statement;
  std::vector<Source> sources;  // in the order of the statement's parameters
  QueryNames query;
  bool from_client = false;  // a value comes with the request
  Layouts layouts;
  std::optional<Version> version;          // of an object: its ETag
  std::shared_ptr<const RolePlan> role;    // null: it runs as the login
  std::shared_ptr<const Guards> guards;    // null: nothing is required
  std::shared_ptr<const ErrorMap> errors;  // null: codes are answered as ever

  [[nodiscard]] std::string_view credential() const;  // as for log_text()
};

// For the log, where there may be one only.
[[nodiscard]] sql::Error several_rows();

// One core's handler of an endpoint: binds what the request says, runs the statement, encodes its rows. A result that
// the database gives at once is answered whole, with its length; a longer one is streamed.
class Endpoint final : public http::Handler {
 public:
  // `trouble`: of the database, which cannot be reached; null: each request that meets it is logged.
  Endpoint(std::shared_ptr<const EndpointPlan> plan, sql::Database& database, core::Reactor& reactor,
           TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failure_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  class RowsBody;
  using Cursor = std::unique_ptr<sql::Cursor>;

  [[nodiscard]] core::Async<http::Response> query(http::Request& request, const Wish& wish);
  core::Task<http::Response> query_if_allowed(http::Request& request, Wish wish);
  core::Task<http::Response> wait_for_cursor(Wish wish, core::Async<sql::Result<Cursor>> querying);
  core::Task<http::Response> wait_for_rows(Wish wish, Cursor cursor, core::Async<sql::Result<sql::Block>> reading);
  core::Task<http::Response> check_object(Wish wish, Cursor cursor, sql::Block first);
  [[nodiscard]] http::Response answer(const Wish& wish, Cursor cursor, const sql::Result<sql::Block>& first);
  [[nodiscard]] http::Response answer_object(const Wish& wish, const sql::Block& block);
  [[nodiscard]] std::optional<http::Response> refuse_by_version(const Wish& wish, const sql::Block& block,
                                                                std::string& tag) const;
  [[nodiscard]] const sql::Layout& layout_of(const Wish& wish, std::span<const sql::Column> columns);
  [[nodiscard]] const sql::Layout& layout_of_changed(const Wish& wish, std::span<const sql::Column> columns);
  [[nodiscard]] http::Response head_of_answer(const Wish& wish) const;
  [[nodiscard]] http::Response failed(const sql::Error& error) const;

  struct Changed {
    const sql::Column* columns;
    Layouts layouts;  // made when they are first asked for
  };

  std::shared_ptr<const EndpointPlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failure_;
  Binder binder_;
  std::vector<sql::Argument> arguments_;  // until they are bound
  // For other columns than the plan's: the table has changed since the start. As many as the database hands out lists,
  // which stay as long as it does.
  std::vector<Changed> changed_;
};

}  // namespace sluice::api
