#include "api/list/endpoint.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_head.h"
#include "api/refusals.h"

namespace sluice::api::list {

core::Async<http::Response> Endpoint::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (request.body != nullptr) [[unlikely]]
    return handle_without_body(exchange, *this);
  const auto preference = preference_of(request, plan_->formats);
  if (!preference) return not_acceptable(plan_->formats);
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
  }
  return run(exchange, *preference);
}

core::Task<http::Response> Endpoint::run(http::Exchange& exchange, Preference preference) {
  Page page(*plan_);
  if (auto refusal = page.read(exchange, text_)) co_return std::move(*refusal);
  // The text is that of the next request when this one continues.
  std::shared_ptr<sql::Shape> shape = database_.shapes().find(text_);
  std::optional<sql::Shape> made;
  if (!shape) made = page.make_shape(text_);
  const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
  }
  const sql::QueryOptions options{.deadline = deadline, .settings = settings};
  if (plan_->guards) {
    auto refusal = co_await plan_->guards->ask(exchange, database_, options, failures_);
    if (refusal) co_return std::move(*refusal);
  }
  if (page.asks_planner()) {
    if (auto asked = co_await ask_planner(page, options); !asked) {
      co_return failures_.answer(asked.error(), Failed::reading, {}, plan_->sources);
    }
  }
  if (made) shape = database_.shapes().find(made->statement.text);
  if (!shape) shape = database_.shapes().add(*std::move(made));
  auto cursor = co_await database_.query(shape->statement, page.arguments(), options);
  if (!cursor) co_return failures_.answer(cursor.error(), Failed::reading, {}, plan_->sources, shape->statement.text);
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return failures_.answer(block.error(), Failed::reading, {}, {}, shape->statement.text);
    page.take(*block);
    last = block->last;
  }
  co_return answer(preference, page, *shape);
}

core::Task<sql::Result<void>> Endpoint::ask_planner(Page& page, const sql::QueryOptions& options) {
  const sql::Statement statement = page.explanation();
  auto cursor = co_await database_.query(statement, page.explanation_arguments(), options);
  if (!cursor) co_return std::unexpected(cursor.error());
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    if (block->rows != 0) page.take_explanation(block->row(0)[0].view());
    last = block->last;
  }
  co_return sql::Result<void>{};
}

http::Response Endpoint::answer(const Preference& preference, Page& page, sql::Shape& shape) const {
  http::Response response;
  AnswerHead{.preference = preference, .cache_control = plan_->cache_control}.fill(response);
  failures_.got_through();
  const sql::Block rows = page.rows();
  // The columns differ if the table has changed since it was described.
  const bool is_known = rows.columns.data() == shape.statement.columns.data();
  std::unique_ptr<const sql::Layout> changed;
  auto& layout = is_known ? shape.layouts[static_cast<std::size_t>(preference.format)] : changed;
  if (!layout) layout = std::make_unique<const sql::Layout>(preference.format, rows.columns);
  sql::Encoder encoder(*layout);
  Buffer body;
  encoder.begin(body, preference.header);
  encoder.rows(rows, body);
  encoder.end(body);
  response.fields.add_owned("Row-Count", std::to_string(encoder.row_count()));
  page.describe(response);
  response.body = std::move(body);
  return response;
}

}  // namespace sluice::api::list
