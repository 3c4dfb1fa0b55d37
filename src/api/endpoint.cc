#include "api/endpoint.h"

#include <algorithm>
#include <utility>

#include "api/query_string.h"
#include "base/log.h"
#include "http/accept.h"
#include "sql/parameters.h"

namespace sluice::api {
namespace {

constexpr std::array formats{sql::Format::json, sql::Format::csv, sql::Format::ndjson, sql::Format::csj};

// What an answer can be, as Accept may name it. Of those that a client wants alike, the first.
struct Variant {
  sql::Format format;
  sql::Header header;
  std::string_view type;
  std::string_view subtype;
  std::span<const http::Field> parameters;
};
constexpr std::array<http::Field, 2> with_header{{{"charset", "utf-8"}, {"header", "present"}}};
constexpr std::array<http::Field, 2> without_header{{{"charset", "utf-8"}, {"header", "absent"}}};
constexpr auto no_header_line = std::span(with_header).first(1);
constexpr std::array<Variant, 6> variants{{
    {sql::Format::json, sql::Header::present, "application", "json", no_header_line},
    {sql::Format::csv, sql::Header::present, "text", "csv", with_header},
    {sql::Format::ndjson, sql::Header::present, "application", "x-ndjson", no_header_line},
    {sql::Format::csj, sql::Header::present, "application", "csj", with_header},
    {sql::Format::csv, sql::Header::absent, "text", "csv", without_header},
    {sql::Format::csj, sql::Header::absent, "application", "csj", without_header},
}};

std::string_view name_of(sql::ParameterType type) {
  switch (type) {
    case sql::ParameterType::text: return "text";
    case sql::ParameterType::integer: return "an integer";
    case sql::ParameterType::real: return "a number";
    case sql::ParameterType::boolean: return "true or false";
  }
  return "text";
}

sql::Error several_rows() {
  sql::Error error;
  error.failure = sql::Failure::statement;
  error.message = "more than one row for returns = \"object\"";
  return error;
}

http::Response bad_parameter(std::string_view name, std::string_view fault) {
  return http::problem(400, std::string("The parameter \"") + std::string(name) + "\" " + std::string(fault) + ".");
}

}  // namespace

std::vector<sql::Parameter> declared_parameters(const EndpointOptions& options, const http::Pattern& pattern) {
  std::vector<sql::Parameter> declared;
  for (const auto& segment : pattern.segments) {
    if (segment.kind == http::Pattern::Kind::integer) declared.push_back({segment.text, sql::ParameterType::integer});
  }
  for (const auto& param : options.params) {
    if (param.value.type) declared.push_back({param.name.value, param.value.type->value});
  }
  return declared;
}

EndpointPlan::EndpointPlan(const EndpointOptions& options, const http::Pattern& pattern, sql::Statement prepared)
    : path(options.path.value),
      object(options.returns == Returns::object),
      timeout(options.timeout),
      cache_control(options.cache_control ? options.cache_control->value : std::string{}),
      statement(std::move(prepared)) {
  statement.one_row = object;
  const auto in_path = pattern.names();
  for (const sql::Parameter& parameter : statement.parameters) {
    Source source;
    source.name = parameter.name;
    if (const auto found = std::ranges::find(in_path, parameter.name); found != in_path.end()) {
      source.from = Source::From::path;
      source.path_index = static_cast<std::uint8_t>(found - in_path.begin());
    }
    if (parameter.declared) {
      source.type = *parameter.declared;
      source.checked = true;
    }
    for (const auto& param : options.params) {
      if (param.name.value != parameter.name) continue;
      source.required = param.value.required;
      if (param.value.default_value) source.default_text = param.value.default_value->value.text;
    }
    sources.push_back(std::move(source));
  }
  for (const sql::Format format : formats) {
    layouts[static_cast<std::size_t>(format)] =
        std::make_unique<const sql::Layout>(format, statement.columns, sql::EncodeOptions{.object = object});
  }
}

// Rows that follow the first block, pulled as the client takes them.
class Endpoint::RowsBody final : public http::BodySource {
 public:
  // `layout` is the endpoint's or its plan's: like the database that the cursor is of, they outlive the connections.
  // `with_trailers`: the client takes them.
  RowsBody(std::shared_ptr<const EndpointPlan> plan, const sql::Layout& layout, Cursor cursor, bool with_trailers)
      : plan_(std::move(plan)), encoder_(layout), cursor_(std::move(cursor)), with_trailers_(with_trailers) {}

  // Before the answer goes out, while the block's views are valid.
  void take_first(const sql::Block& block, sql::Header header) {
    encoder_.begin(ready_, header);
    encoder_.rows(block, ready_);
    finish_if(block.last, ready_);
  }

  core::Async<Result<Progress>> pull(Buffer& out) override {
    if (!ready_.empty() || last_) {  // all of it may be nothing
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
                " rows: " + block.error().sqlstate + " " + block.error().message);
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

std::optional<Endpoint::Wish> Endpoint::wish_of(const http::Request& request) const {
  Wish wish;
  if (const std::string_view te = request.field("te"); !te.empty()) wish.trailers = http::lists_token(te, "trailers");
  if (!request.extension.empty()) {
    wish.format = *sql::format_of_extension(request.extension.substr(1));
    return wish;
  }
  wish.negotiated = true;
  const std::string_view accept = request.field("accept");
  if (accept.empty() || accept == "*/*") return wish;
  std::uint16_t best = 0;
  for (const Variant& variant : variants) {
    const auto quality = http::quality_of(request.fields, variant.type, variant.subtype, variant.parameters);
    if (quality <= best) continue;
    best = quality;
    wish.format = variant.format;
    wish.header = variant.header;
    if (best == 1000) break;
  }
  if (best == 0) return std::nullopt;
  return wish;
}

core::Async<http::Response> Endpoint::handle(http::Request& request) {
  const auto wish = wish_of(request);
  if (!wish) {
    http::Response refused = http::problem(
        406, "The resource is there as application/json, text/csv, application/x-ndjson and application/csj.");
    refused.fields.add_trusted("Vary", "Accept");
    return refused;
  }

  arguments_.clear();
  const QueryString query(request.query, scratch_);
  for (const EndpointPlan::Source& source : plan_->sources) {
    std::optional<std::string_view> text;
    if (source.from == EndpointPlan::Source::From::path) {
      text = request.path_values[source.path_index];
    } else {
      if (const auto value = query.find(source.name)) {
        if (value->broken) return bad_parameter(source.name, "has a percent escape that is none");
        text = value->text;
      }
      // What a form sends for a field that was left empty is no number.
      if (text && text->empty() && source.checked && source.type != sql::ParameterType::text) text.reset();
    }
    if (!text) {
      if (source.required) return bad_parameter(source.name, "is missing");
      if (source.default_text) text = *source.default_text;
    }
    if (text && source.checked && !sql::fits(source.type, *text)) {
      return bad_parameter(source.name, std::string("must be ") + std::string(name_of(source.type)));
    }
    if (text && text->contains('\0')) return bad_parameter(source.name, "holds a NUL character");
    arguments_.push_back({.text = text, .type = source.type});
  }

  const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
  auto querying = database_.query(plan_->statement, arguments_, {.deadline = deadline});
  if (!querying.ready()) return wait_for_cursor(*wish, std::move(querying));
  auto cursor = querying.take();
  if (!cursor) return failed(cursor.error());
  auto reading = (*cursor)->next();
  if (!reading.ready()) return wait_for_rows(*wish, std::move(*cursor), std::move(reading));
  auto block = reading.take();
  if (plan_->object && block && !block->last) return check_object(*wish, std::move(*cursor), *block);
  return answer(*wish, std::move(*cursor), block);
}

core::Task<http::Response> Endpoint::wait_for_cursor(Wish wish, core::Async<sql::Result<Cursor>> querying) {
  auto cursor = co_await std::move(querying);
  if (!cursor) co_return failed(cursor.error());
  auto reading = (*cursor)->next();
  if (reading.ready()) {
    auto block = reading.take();
    if (!plan_->object || !block || block->last) co_return answer(wish, std::move(*cursor), block);
    co_return co_await check_object(wish, std::move(*cursor), *block);
  }
  co_return co_await wait_for_rows(wish, std::move(*cursor), std::move(reading));
}

core::Task<http::Response> Endpoint::wait_for_rows(Wish wish, Cursor cursor,
                                                   core::Async<sql::Result<sql::Block>> reading) {
  auto block = co_await std::move(reading);
  if (plan_->object && block && !block->last) co_return co_await check_object(wish, std::move(cursor), *block);
  co_return answer(wish, std::move(cursor), block);
}

// One row has come, and the database has not said that there is no other.
core::Task<http::Response> Endpoint::check_object(Wish wish, Cursor cursor, sql::Block first) {
  std::size_t rows = first.rows;
  http::Response response = answer_object(wish, first);
  bool last = first.last;
  while (rows <= 1 && !last) {
    auto block = co_await cursor->next();
    if (!block) co_return failed(block.error());
    if (rows == 0) response = answer_object(wish, *block);
    rows += block->rows;
    last = block->last;
  }
  if (rows > 1) {
    co_return failed(several_rows());
  }
  co_return response;
}

http::Response Endpoint::head_of_answer(const Wish& wish) const {
  http::Response response;
  response.fields.add_trusted("Content-Type", sql::media_type(wish.format, wish.header));
  if (wish.negotiated) response.fields.add_trusted("Vary", "Accept");
  if (!plan_->cache_control.empty()) response.fields.add("Cache-Control", plan_->cache_control);
  if (trouble_ != nullptr) trouble_->got_through();
  return response;
}

const sql::Layout& Endpoint::layout_of(const Wish& wish, std::span<const sql::Column> columns) {
  if (columns.data() != plan_->statement.columns.data()) [[unlikely]] return layout_of_changed(wish, columns);
  return *plan_->layouts[static_cast<std::size_t>(wish.format)];
}

const sql::Layout& Endpoint::layout_of_changed(const Wish& wish, std::span<const sql::Column> columns) {
  auto known = std::ranges::find(changed_, columns.data(), &Changed::columns);
  if (known == changed_.end()) known = changed_.insert(known, {.columns = columns.data(), .layouts = {}});
  auto& layout = known->layouts[static_cast<std::size_t>(wish.format)];
  if (!layout) {
    const sql::EncodeOptions options{.object = plan_->object};
    layout = std::make_unique<const sql::Layout>(wish.format, columns, options);
  }
  return *layout;
}

http::Response Endpoint::answer_object(const Wish& wish, const sql::Block& block) {
  if (block.rows == 0) return http::problem(404, "There is no such thing.");
  if (block.rows > 1) {
    return failed(several_rows());
  }
  http::Response response = head_of_answer(wish);
  sql::Encoder encoder(layout_of(wish, block.columns));
  Buffer body;
  encoder.begin(body, wish.header);
  encoder.rows(block, body);
  encoder.end(body);
  response.body = std::move(body);
  return response;
}

http::Response Endpoint::answer(const Wish& wish, Cursor cursor, const sql::Result<sql::Block>& first) {
  if (!first) return failed(first.error());
  if (plan_->object) return answer_object(wish, *first);
  http::Response response = head_of_answer(wish);
  if (first->last && !wish.trailers) {
    sql::Encoder encoder(layout_of(wish, first->columns));
    Buffer body;
    encoder.begin(body, wish.header);
    encoder.rows(*first, body);
    encoder.end(body);
    response.fields.add_owned("Row-Count", std::to_string(encoder.row_count()));
    response.body = std::move(body);
    return response;
  }
  auto rows = std::make_unique<RowsBody>(plan_, layout_of(wish, first->columns), std::move(cursor), wish.trailers);
  rows->take_first(*first, wish.header);
  if (wish.trailers) response.fields.add_trusted("Trailer", "Row-Count");
  response.body = std::unique_ptr<http::BodySource>(std::move(rows));
  return response;
}

http::Response Endpoint::failed(const sql::Error& error) const {
  // Where the client sends nothing, bad data cannot be its fault.
  if (error.failure == sql::Failure::bad_argument && plan_->sources.empty()) {
    sql::Error ours = error;
    ours.failure = sql::Failure::statement;
    return failed(ours);
  }
  const bool is_away = error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost;
  if (is_away && trouble_ != nullptr) {
    trouble_->met(error.sqlstate + (error.sqlstate.empty() ? "" : " ") + error.message);
  } else if (error.failure != sql::Failure::bad_argument) {
    log_error("endpoint " + plan_->path + ": " + error.sqlstate + (error.sqlstate.empty() ? "" : " ") + error.message);
  }
  switch (error.failure) {
    case sql::Failure::unavailable:
    case sql::Failure::lost: {
      http::Response response = http::problem(503, "The database cannot be reached now.");
      response.fields.add("Retry-After", "1");
      return response;
    }
    case sql::Failure::timed_out: return http::problem(504, "The statement took too long.");
    case sql::Failure::bad_argument: return http::problem(400, "A parameter's value does not fit its type.");
    case sql::Failure::statement: break;
  }
  return http::problem(500);
}

}  // namespace sluice::api
