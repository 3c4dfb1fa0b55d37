#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/endpoint.h"
#include "api/list/page.h"
#include "base/log.h"
#include "http/server.h"
#include "sql/shapes.h"

namespace sluice::api::list {

// One core's handler of a GET with [endpoint.list]: makes the statement for the request's query string, and answers
// with one page.
class Endpoint final : public http::Handler {
 public:
  // As for api::Endpoint. Precondition: the plan has a list.
  Endpoint(std::shared_ptr<const EndpointPlan> plan, sql::Database& database, core::Reactor& reactor,
           TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  [[nodiscard]] core::Task<http::Response> run(http::Exchange& exchange, Preference preference);
  [[nodiscard]] core::Task<sql::Result<void>> ask_planner(Page& page, const sql::QueryOptions& options);
  [[nodiscard]] http::Response answer(const Preference& preference, Page& page, sql::Shape& shape) const;

  std::shared_ptr<const EndpointPlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failures_;
  std::string text_;  // of the current request's statement, until the request first waits
};

}  // namespace sluice::api::list
