#include "api/file_endpoint.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "api/refusals.h"
#include "base/log.h"

namespace sluice::api {
namespace {

std::string text_of(const sql::Block& block, std::string_view column) {
  for (std::size_t i = 1; i < block.columns.size(); ++i) {
    if (block.columns[i].name != column) continue;
    const sql::Field& field = block.row(0)[i];
    return field.is_null() ? std::string{} : std::string(field.view());
  }
  return {};
}

}  // namespace

std::string check_file_columns(std::span<const sql::Column> columns) {
  bool has_type = false;
  bool has_name = false;
  for (std::size_t i = 1; i < columns.size(); ++i) {
    const std::string& name = columns[i].name;
    bool* const known = name == "type" ? &has_type : name == "name" ? &has_name : nullptr;
    if (known == nullptr || std::exchange(*known, true)) {
      return "the first column is the file's hash, and the others are called \"type\" and \"name\", not \"" + name +
             "\"";
    }
  }
  return {};
}

core::Async<http::Response> FileEndpoint::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (request.body != nullptr) [[unlikely]]
    return handle_without_body(exchange, *this);
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
  }
  if (auto refusal = plan_->query.refuse(request)) return std::move(*refusal);
  return run(exchange);
}

core::Task<http::Response> FileEndpoint::run(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
  }
  if (plan_->guards) {
    auto refusal =
        co_await plan_->guards->ask(exchange, database_, {.deadline = deadline, .settings = settings}, failures_);
    if (refusal) co_return std::move(*refusal);
  }
  Binder binder;
  std::vector<sql::Argument> arguments;
  if (auto bound = binder.bind(plan_->sources, exchange, {}, arguments); !bound) co_return refuse_value(bound.error());
  const Failed failed = plan_->from_client ? Failed::reading : Failed::reading_alone;
  std::optional<http::BlobAnswer> file;
  {
    auto cursor = co_await database_.query(plan_->statement, arguments, {.deadline = deadline, .settings = settings});
    if (!cursor) co_return failures_.answer(cursor.error(), failed, {}, plan_->sources);
    std::size_t rows = 0;
    for (bool last = false; !last && rows <= 1;) {
      auto block = co_await (*cursor)->next();
      if (!block) co_return failures_.answer(block.error(), failed);
      if (rows == 0 && block->rows != 0) {
        const sql::Field& hash = block->row(0)[0];
        file.emplace(http::BlobAnswer{.hash = hash.is_null() ? std::string{} : std::string(hash.view()),
                                      .media_type = text_of(*block, "type"),
                                      .name = text_of(*block, "name"),
                                      .cache_control = plan_->cache_control});
      }
      rows += block->rows;
      last = block->last;
    }
    if (rows > 1) co_return failures_.answer(several_rows(), failed);
    failures_.got_through();
  }  // releases the connection before the file is sent
  if (!file || file->hash.empty()) co_return refuse_missing(request);
  if (!http::is_blob_hash(file->hash)) {
    log_error("endpoint " + plan_->path + ": the first column of its row is no hash of a file");
    co_return http::problem(500);
  }
  co_return co_await store_.serve(request, std::move(*file));
}

}  // namespace sluice::api
