#include "api/set_endpoint.h"

#include <algorithm>
#include <utility>

#include "api/query_string.h"
#include "api/refusals.h"

namespace sluice::api {
namespace {

constexpr std::size_t batch_rows = 1024;        // handed to the database at a time
constexpr std::size_t batch_bytes = 128 << 10;  // likewise, of their values

}  // namespace

sql::SetOptions set_options(http::Method method, const MethodOptions& options, const http::Pattern& pattern) {
  sql::SetOptions set;
  set.existing = options.existing.value;
  for (const auto& column : options.columns) {
    const Source source = column_source(column, pattern);
    const bool shared = source.from != From::body;
    // What a PATCH does not say stays.
    const bool optional = method == http::Method::patch && !shared && !column.value.key &&
                          !column.value.required.value && !column.value.default_value;
    set.columns.push_back({.name = column.name.value, .key = column.value.key, .shared = shared, .optional = optional});
  }
  return set;
}

SetWritePlan::SetWritePlan(http::Method method_, const EndpointOptions& endpoint, const MethodOptions& options,
                           const http::Pattern& pattern, sql::SetPlan prepared)
    : path(endpoint.path.value),
      method(method_),
      timeout(endpoint.timeout),
      isolation(options.isolation),
      retries(options.retries),
      set(std::move(prepared)) {
  row_limits.row_bytes = row_limit(endpoint, options);
  for (const auto& column : options.columns) {
    Source source = column_source(column, pattern);
    if (source.from != From::body) continue;
    source.body_index = shape.names.size();
    shape.names.push_back(source.key);
    staged.push_back(std::move(source));
  }
  for (const sql::Parameter& parameter : set.parameters) {
    const auto column = std::ranges::find_if(
        options.columns, [&](const auto& one) { return sql::shared_parameter(one.name.value) == parameter.name; });
    shared.push_back(column != options.columns.end() ? column_source(*column, pattern)
                                                     : source_of(parameter, endpoint.params, pattern, false));
  }
}

// What has been read of the body, and is not with the database yet.
class SetEndpoint::Rows {
 public:
  Rows(const SetWritePlan& plan, BodyFormat format, const http::Request& request)
      : plan_(plan), request_(request), reader_(RowReader::make(format, plan.shape, plan.row_limits)) {
    if (plan.schema) check_.emplace(*plan.schema, plan.shape, format);
  }

  [[nodiscard]] RowReader& reader() { return *reader_; }
  [[nodiscard]] const std::vector<RowFault>& faults() const { return faults_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool ended() const { return ended_; }

  // Takes rows until the reader wants more bytes, or a batch is full (true).
  [[nodiscard]] bool take() {
    for (;;) {
      switch (reader_->next()) {
        case RowReader::Next::row:
          take_row();
          if (lines_.size() >= batch_rows || texts_.size() >= batch_bytes) return true;
          break;
        case RowReader::Next::bad_row:
          add_fault(reader_->fault());
          break;
        case RowReader::Next::broken:
          faults_ = {reader_->fault()};
          broken_ = true;
          [[fallthrough]];
        case RowReader::Next::end:
          ended_ = true;
          return false;
        case RowReader::Next::need_more:
          return false;
      }
      if (faults_.size() == most_faults) ended_ = true;
      if (ended_) return false;
    }
  }

  // The batch, whose views last until the next take().
  [[nodiscard]] std::span<const sql::StagedValue> values() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].text) values_[i].text = std::string_view(texts_).substr(begins_[i], values_[i].text->size());
    }
    return values_;
  }
  core::Task<sql::Result<void>> hand_over(sql::Staging& staging) {
    if (!faults_.empty() || lines_.empty()) co_return sql::Result<void>{};
    auto added = co_await staging.add(values(), lines_);
    clear();
    co_return added;
  }

  // What the database has said of its staged rows.
  [[nodiscard]] RowFault fault_of(const sql::StagedFault& fault) const {
    RowFault found{.line = fault.line, .row = fault.row, .pointer = fault.column, .reason = fault.reason};
    return found;
  }

 private:
  void take_row() {
    if (check_ && !check_->holds(*reader_, most_faults, faults_)) return;
    arguments_.clear();
    const auto row = reader_->row();
    if (auto bound = binder_.bind(plan_.staged, request_, row, arguments_); !bound) {
      add_fault(reader_->fault_of(bound.error().source->body_index, std::move(bound.error().reason)));
      return;
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const bool missing = row[plan_.staged[i].body_index].kind == Value::Kind::missing;
      const bool left_out = plan_.set.optional[i] && missing;
      if (!arguments_[i].text && plan_.set.not_null[i] && !left_out) {
        add_fault(reader_->fault_of(plan_.staged[i].body_index, missing ? "is missing" : "must not be null"));
        return;
      }
    }
    if (!faults_.empty()) return;  // nothing will be written: the others are only looked at
    lines_.push_back(reader_->row_line());
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const sql::Argument& argument = arguments_[i];
      const bool left_out = plan_.set.optional[i] && row[plan_.staged[i].body_index].kind == Value::Kind::missing;
      begins_.push_back(texts_.size());
      if (argument.text) texts_ += *argument.text;
      values_.push_back({.text = argument.text, .left_out = left_out, .type = argument.type});
    }
  }
  void clear() {
    texts_.clear();
    values_.clear();
    begins_.clear();
    lines_.clear();
  }
  void add_fault(RowFault fault) {
    if (faults_.size() < most_faults) faults_.push_back(std::move(fault));
  }

  const SetWritePlan& plan_;
  const http::Request& request_;
  std::unique_ptr<RowReader> reader_;
  std::optional<schema::RowCheck> check_;
  Binder binder_;
  std::vector<sql::Argument> arguments_;
  std::string texts_;
  std::vector<sql::StagedValue> values_;
  std::vector<std::size_t> begins_;  // of each value in texts_
  std::vector<std::uint64_t> lines_;
  std::vector<RowFault> faults_;
  bool broken_ = false;
  bool ended_ = false;
};

core::Task<http::Response> SetEndpoint::run(http::Request& request) {
  const SetWritePlan& plan = *plan_;
  sql::TransactionOptions options;
  options.isolation = plan.isolation;
  std::vector<sql::Setting> settings;
  if (plan.role) {
    auto made = settings_of(*plan.role, request);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
    options.settings = settings;
  }
  if (plan.guards) {
    const Instant deadline = plan.timeout ? reactor_.now() + *plan.timeout : never;
    auto refusal =
        co_await plan.guards->ask(request, database_, {.deadline = deadline, .settings = settings}, failures_);
    if (refusal) co_return std::move(*refusal);
  }
  std::string scratch;
  bool dry_run = false;
  if (const auto asked = QueryString(request.query, scratch).find("dry-run")) {
    dry_run = asked->text.empty() || asked->text == "true" || asked->text == "1";
    if (!dry_run && asked->text != "false" && asked->text != "0") {
      co_return http::problem(400, "The parameter \"dry-run\" must be true or false.");
    }
  }
  Binder binder;
  std::vector<sql::Argument> shared;
  if (auto bound = binder.bind(plan.shared, request, {}, shared); !bound) co_return refuse_value(bound.error());
  if (request.body == nullptr) co_return http::problem(400, "The request has no body.");
  const auto format = body_format(request);
  if (!format) co_return refuse_type();
  if (announces_more(request, plan.body_limit)) co_return refuse_length();
  if (plan.more_body != 0) request.body->allow_more(plan.more_body);

  const auto staging = database_.stage(plan.set, options);
  Rows rows(plan, *format, request);
  std::uint64_t left = plan.body_limit;
  while (!rows.ended()) {
    if (rows.take()) {
      if (auto added = co_await rows.hand_over(*staging); !added)
        co_return failures_.answer(added.error(), Failed::writing);
      continue;
    }
    if (rows.ended()) break;
    auto piece = co_await request.body->read();
    if (!piece) co_return refuse_body(piece.error());
    if (piece->size() > left) co_return refuse_length();
    left -= piece->size();
    if (piece->empty()) {
      rows.reader().finish();
    } else {
      rows.reader().feed(*piece);
    }
  }
  if (rows.broken()) co_return refuse_unreadable(rows.faults());
  if (!rows.faults().empty()) co_return refuse_rows(rows.faults());
  if (auto added = co_await rows.hand_over(*staging); !added)
    co_return failures_.answer(added.error(), Failed::writing);
  auto outcome = co_await staging->apply(
      shared,
      {.commit = !dry_run, .retries = plan.retries, .deadline = plan.timeout ? reactor_.now() + *plan.timeout : never});
  if (!outcome) co_return failures_.answer(outcome.error(), Failed::writing);
  failures_.got_through();
  if (!outcome->faults.empty()) {
    std::vector<RowFault> faults;
    for (const sql::StagedFault& fault : outcome->faults) faults.push_back(rows.fault_of(fault));
    co_return refuse_rows(faults);
  }
  http::Response response;
  response.fields.add_trusted("Content-Type", "application/json");
  Buffer body;
  body.append("{\"inserted\":" + std::to_string(outcome->inserted) +
              ",\"updated\":" + std::to_string(outcome->updated) + ",\"deleted\":" + std::to_string(outcome->deleted) +
              ",\"unchanged\":" + std::to_string(outcome->unchanged) + "}");
  response.body = std::move(body);
  co_return response;
}

}  // namespace sluice::api
