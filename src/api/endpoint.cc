#include "api/endpoint.h"

#include <algorithm>
#include <utility>

#include "api/answer_head.h"
#include "api/refusals.h"
#include "base/log.h"

namespace sluice::api {

sql::Error several_rows() {
  sql::Error error;
  error.failure = sql::Failure::statement;
  error.message = "more than one row for returns = \"object\" or \"file\"";
  return error;
}

EndpointPlan::EndpointPlan(const EndpointOptions& options, const http::Pattern& pattern, sql::Statement prepared)
    : path(options.path.value),
      object(options.returns != Returns::rows),
      formats(options.offered_formats()),
      file(options.returns == Returns::file),
      timeout(options.timeout),
      cache_control(options.cache_control ? options.cache_control->value : std::string{}),
      statement(std::move(prepared)) {
  statement.one_row = object;
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
    sources.push_back(source_of(statement.parameters[i], options.params, pattern, false));
    take_type(sources.back(), statement, i);
  }
  if (statement.parallel) {
    // The database supplies these values; the client's are ignored. In a batch, the range covers the whole table.
    const auto set = [&](std::size_t index, std::string_view all) {
      Source& source = sources[index] = {};
      source.name = statement.parameters[index].name;
      source.from = From::environment;
      source.default_text = all;
    };
    set(statement.parallel->from, sql::first_tid);
    set(statement.parallel->to, sql::last_tid);
  }
  query = QueryNames(options.query);
  query.add(sources);
  from_client = std::ranges::any_of(sources, [](const Source& source) { return source.from != From::environment; });
  layouts = make_layouts(statement.columns, object);
  if (!options.version.value.empty()) version = Version::of(options.version.value, statement.columns);
}

std::string_view EndpointPlan::credential() const {
  const auto name = credential_of(sources);
  return name.empty() && guards ? guards->credential() : name;
}

// The rows after the first block, which are read as fast as the client takes them.
class Endpoint::RowsBody final : public http::BodySource {
 public:
  // `layout` belongs to the endpoint or its plan, which outlive the connections, as the cursor's database does.
  // `with_trailers`: the client accepts trailers.
  RowsBody(std::shared_ptr<const EndpointPlan> plan, const sql::Layout& layout, Cursor cursor, bool with_trailers)
      : plan_(std::move(plan)), encoder_(layout), cursor_(std::move(cursor)), with_trailers_(with_trailers) {}

  // Encodes the first block before the answer is sent, while the block's views are valid.
  void take_first(const sql::Block& block, sql::Header header) {
    encoder_.begin(ready_, header);
    encoder_.rows(block, ready_);
    finish_if(block.last, ready_);
  }

  core::Async<Result<Progress>> pull(Buffer& out) override {
    if (!ready_.empty() || last_) {  // the first block may have no output
      out.append(ready_.view());
      ready_.release();
      return Result<Progress>(last_ ? Progress::done : Progress::more);
    }
    auto reading = cursor_->next();
    if (!reading.ready()) return wait(out, std::move(reading));
    return encode(reading.take(), out);
  }

  std::span<const http::Field> trailers() const override {
    return {&trailer_, with_trailers_ ? std::size_t{1} : std::size_t{0}};
  }

 private:
  core::Task<Result<Progress>> wait(Buffer& out, core::Async<sql::Result<sql::Block>> reading) {
    const auto block = co_await std::move(reading);
    co_return encode(block, out);
  }
  Result<Progress> encode(const sql::Result<sql::Block>& block, Buffer& out) {
    if (!block) {
      log_error("endpoint " + plan_->path + ": the answer breaks off after " + std::to_string(encoder_.row_count()) +
                " rows: " + log_text(block.error(), plan_->credential()));
      return fail(Errc::closed);
    }
    encoder_.rows(*block, out);
    finish_if(block->last, out);
    return last_ ? Progress::done : Progress::more;
  }
  void finish_if(bool last, Buffer& out) {
    last_ = last;
    if (!last) return;
    encoder_.end(out);
    row_count_ = std::to_string(encoder_.row_count());
    trailer_ = {"Row-Count", row_count_};
  }

  std::shared_ptr<const EndpointPlan> plan_;
  sql::Encoder encoder_;
  Cursor cursor_;
  Buffer ready_;
  const bool with_trailers_;
  bool last_ = false;
  std::string row_count_;
  http::Field trailer_;
};

core::Async<http::Response> Endpoint::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (request.body != nullptr) [[unlikely]]
    return handle_without_body(exchange, *this);
  const auto preference = preference_of(request, plan_->formats);
  if (!preference) return not_acceptable(plan_->formats);
  bool asks_first = false;
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
    asks_first = verdict.wanted.has_value();
  }
  if (auto refusal = plan_->query.refuse(request)) return std::move(*refusal);
  if (asks_first) return query_if_allowed(exchange, *preference);
  return query(exchange, *preference);
}

core::Task<http::Response> Endpoint::query_if_allowed(http::Exchange& exchange, Preference preference) {
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
  }
  const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
  auto refusal =
      co_await plan_->guards->ask(exchange, database_, {.deadline = deadline, .settings = settings}, failure_);
  if (refusal) co_return std::move(*refusal);
  co_return co_await query(exchange, preference);
}

core::Async<http::Response> Endpoint::query(http::Exchange& exchange, const Preference& preference) {
  arguments_.clear();
  if (auto bound = binder_.bind(plan_->sources, exchange, {}, arguments_); !bound) return refuse_value(bound.error());

  const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) return std::move(made.error());
    settings = std::move(*made);
  }
  auto querying = database_.query(plan_->statement, arguments_, {.deadline = deadline, .settings = settings});
  if (!querying.ready()) return wait_for_cursor(preference, std::move(querying));
  auto cursor = querying.take();
  if (!cursor) return failed(cursor.error());
  auto reading = (*cursor)->next();
  if (!reading.ready()) return wait_for_rows(preference, std::move(*cursor), std::move(reading));
  auto block = reading.take();
  if (plan_->object && block && !block->last) return check_object(preference, std::move(*cursor), *block);
  return answer(preference, std::move(*cursor), block);
}

core::Task<http::Response> Endpoint::wait_for_cursor(Preference preference, core::Async<sql::Result<Cursor>> querying) {
  auto cursor = co_await std::move(querying);
  if (!cursor) co_return failed(cursor.error());
  auto reading = (*cursor)->next();
  if (reading.ready()) {
    auto block = reading.take();
    if (!plan_->object || !block || block->last) co_return answer(preference, std::move(*cursor), block);
    co_return co_await check_object(preference, std::move(*cursor), *block);
  }
  co_return co_await wait_for_rows(preference, std::move(*cursor), std::move(reading));
}

core::Task<http::Response> Endpoint::wait_for_rows(Preference preference, Cursor cursor,
                                                   core::Async<sql::Result<sql::Block>> reading) {
  auto block = co_await std::move(reading);
  if (plan_->object && block && !block->last) co_return co_await check_object(preference, std::move(cursor), *block);
  co_return answer(preference, std::move(cursor), block);
}

// Reads on after the first row, because the database has not yet confirmed that it is the only one.
core::Task<http::Response> Endpoint::check_object(Preference preference, Cursor cursor, sql::Block first) {
  std::size_t rows = first.rows;
  http::Response response = answer_object(preference, first);
  bool last = first.last;
  while (rows <= 1 && !last) {
    auto block = co_await cursor->next();
    if (!block) co_return failed(block.error());
    if (rows == 0) response = answer_object(preference, *block);
    rows += block->rows;
    last = block->last;
  }
  if (rows > 1) {
    co_return failed(several_rows());
  }
  co_return response;
}

http::Response Endpoint::head_of_answer(const Preference& preference) const {
  http::Response response;
  AnswerHead{.preference = preference, .cache_control = plan_->cache_control}.fill(response);
  failure_.got_through();
  return response;
}

const sql::Layout& Endpoint::layout_of(const Preference& preference, std::span<const sql::Column> columns) {
  if (columns.data() != plan_->statement.columns.data()) [[unlikely]]
    return layout_of_changed(preference, columns);
  return *plan_->layouts[static_cast<std::size_t>(preference.format)];
}

const sql::Layout& Endpoint::layout_of_changed(const Preference& preference, std::span<const sql::Column> columns) {
  auto known = std::ranges::find(changed_, columns.data(), &Changed::columns);
  if (known == changed_.end()) known = changed_.insert(known, {.columns = columns.data(), .layouts = {}});
  auto& layout = known->layouts[static_cast<std::size_t>(preference.format)];
  if (!layout) {
    const sql::EncodeOptions options{.object = plan_->object};
    layout = std::make_unique<const sql::Layout>(preference.format, columns, options);
  }
  return *layout;
}

// `tag`: the answer's ETag, if the row has a state. See RFC 9110, 13.2.2.
std::optional<http::Response> Endpoint::refuse_by_version(const Preference& preference, const sql::Block& block,
                                                          std::string& tag) const {
  const std::optional<std::string> state = plan_->version->state(block);
  if (state) tag = tag_of(*state, preference.format, preference.header);
  const Conditions conditions(*preference.request);
  if (conditions.none()) return std::nullopt;
  switch (conditions.judge(state, tag)) {
    case Conditions::Verdict::proceed:
      return std::nullopt;
    case Conditions::Verdict::stale:
      return refuse_stale();
    case Conditions::Verdict::malformed:
      return http::refuse_mixed_any();
    case Conditions::Verdict::known:
      break;
  }
  failure_.got_through();
  return AnswerHead{.preference = preference, .cache_control = plan_->cache_control}.not_modified(conditions, tag);
}

http::Response Endpoint::answer_object(const Preference& preference, const sql::Block& block) {
  if (block.rows == 0) return refuse_missing(*preference.request);
  if (block.rows > 1) {
    return failed(several_rows());
  }
  std::string tag;
  if (plan_->version) {
    if (auto refusal = refuse_by_version(preference, block, tag)) return std::move(*refusal);
  }
  http::Response response = head_of_answer(preference);
  if (!tag.empty()) {
    response.fields.add_owned("ETag", std::move(tag));
    response.tag_takes_suffix = true;
  }
  sql::Encoder encoder(layout_of(preference, block.columns));
  Buffer body;
  encoder.begin(body, preference.header);
  encoder.rows(block, body);
  encoder.end(body);
  response.body = std::move(body);
  return response;
}

http::Response Endpoint::answer(const Preference& preference, Cursor cursor, const sql::Result<sql::Block>& first) {
  if (!first) return failed(first.error());
  if (plan_->object) return answer_object(preference, *first);
  http::Response response = head_of_answer(preference);
  if (first->last && !preference.trailers) {
    sql::Encoder encoder(layout_of(preference, first->columns));
    Buffer body;
    encoder.begin(body, preference.header);
    encoder.rows(*first, body);
    encoder.end(body);
    response.fields.add_owned("Row-Count", std::to_string(encoder.row_count()));
    response.body = std::move(body);
    return response;
  }
  auto rows =
      std::make_unique<RowsBody>(plan_, layout_of(preference, first->columns), std::move(cursor), preference.trailers);
  rows->take_first(*first, preference.header);
  if (preference.trailers) response.fields.add_trusted("Trailer", "Row-Count");
  response.body = std::unique_ptr<http::BodySource>(std::move(rows));
  return response;
}

http::Response Endpoint::failed(const sql::Error& error) const {
  const Failed failed = plan_->from_client ? Failed::reading : Failed::reading_alone;
  return failure_.answer(error, failed, {}, plan_->sources, plan_->statement.text);
}

}  // namespace sluice::api
