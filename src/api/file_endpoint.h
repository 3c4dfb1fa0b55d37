#pragma once

#include <memory>
#include <span>
#include <string>

#include "api/endpoint.h"
#include "http/blob.h"

namespace sluice::api {

// Checks the columns of a GET that answers with a file: the first is the hash, and the others may only be `type` and
// `name`. Returns what is wrong with them, or an empty string.
[[nodiscard]] std::string check_file_columns(std::span<const sql::Column> columns);

// One core's handler of a GET that answers with a file. The statement returns the file's hash; the store has the file.
class FileEndpoint final : public http::Handler {
 public:
  FileEndpoint(std::shared_ptr<const EndpointPlan> plan, sql::Database& database, core::Reactor& reactor,
               http::BlobStore& store, TroubleLog* trouble = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        store_(store),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  [[nodiscard]] core::Task<http::Response> run(http::Exchange& exchange);

  std::shared_ptr<const EndpointPlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  http::BlobStore& store_;
  Failures failures_;
};

}  // namespace sluice::api
