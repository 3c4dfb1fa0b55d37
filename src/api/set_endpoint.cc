#include "api/set_endpoint.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/refusals.h"
#include "api/set_rows.h"
#include "http/query_string.h"

namespace sluice::api {
std::optional<sql::DeletionLimit> parse_deletion_limit(std::string_view text) {
  sql::DeletionLimit limit{.amount = 0, .percent = text.ends_with('%')};
  if (limit.percent) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit.amount);
  if (error != std::errc{} || end != text.data() + text.size() || (limit.percent && limit.amount > 100)) {
    return std::nullopt;
  }
  return limit;
}

std::string check_deletion_limit(std::string_view text) {
  return parse_deletion_limit(text) ? "" : "must be a number of rows, or a share from \"0%\" to \"100%\"";
}

sql::SetOptions set_options(http::Method method, const MethodOptions& options, const http::Pattern& pattern) {
  sql::SetOptions set;
  set.existing = options.existing.value;
  set.own_delete = options.delete_.value;
  set.own_insert = options.insert.value;
  set.own_update = options.update.value;
  set.removes = method == http::Method::put;
  for (const auto& column : options.columns) {
    const Source source = column_source(column, pattern);
    const bool shared = source.from != From::body;
    // A PATCH keeps values that it does not contain.
    const bool optional = method == http::Method::patch && !shared && !column.value.key && !column.value.required.value;
    set.columns.push_back({.name = column.name.value,
                           .key = column.value.key,
                           .shared = shared,
                           .optional = optional,
                           .defaulted = column.value.default_value.has_value()});
  }
  return set;
}

SetWritePlan::SetWritePlan(http::Method method_, const EndpointOptions& endpoint, const MethodOptions& options,
                           const http::Pattern& pattern, sql::SetPlan prepared)
    : path(endpoint.path.value),
      table_name(options.table.value),
      method(method_),
      timeout(endpoint.timeout),
      isolation(options.isolation),
      retries(options.retries),
      takes_object(method == http::Method::patch || options.accepts_object.value),
      set(std::move(prepared)),
      query(endpoint.query) {
  if (options.max_deleted) max_deleted = *parse_deletion_limit(options.max_deleted->value.text);
  row_limits.row_bytes = row_limit(endpoint, options);
  for (const auto& column : options.columns) {
    Source source = column_source(column, pattern);
    if (source.from != From::body) continue;
    source.body_index = shape.names.size();
    shape.names.push_back(source.key);
    if (source.trim) shape.trims.push_back(source.body_index);
    staged.push_back(std::move(source));
  }
  for (const sql::Parameter& parameter : set.parameters) {
    const auto column = std::ranges::find_if(
        options.columns, [&](const auto& one) { return sql::shared_parameter(one.name.value) == parameter.name; });
    shared.push_back(column != options.columns.end() ? column_source(*column, pattern)
                                                     : source_of(parameter, endpoint.params, pattern, false));
    shared.back().is_array = set.dialect == sql::Dialect::postgres;
    // Without a key the request would select no existing rows, and insert new ones each time.
    if (column != options.columns.end() && column->value.key) shared.back().required = true;
  }
  query.add(shared);
  query.add("dry-run");
  if (method == http::Method::put) query.add("max-deleted");
}

void SetWritePlan::take_types(const sql::Table& table) {
  for (Source& source : staged) {
    const sql::TableColumn& column = *table.find(source.name);
    take_column(column, source);
    source.integral = set.dialect == sql::Dialect::postgres &&
                      (column.type == "integer" || column.type == "bigint" || column.type == "smallint");
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const bool of_column = set.parameters[i].name == sql::shared_parameter(shared[i].name);
    if (!of_column) continue;
    const sql::TableColumn& column = *table.find(shared[i].name);
    take_column(column, shared[i]);
    if (shared[i].from != From::environment && !shared[i].default_text) shared[i].required |= column.not_null;
  }
}

std::string_view SetWritePlan::credential() const {
  for (const std::span<const Source> sources : {std::span<const Source>(staged), std::span<const Source>(shared)}) {
    if (const auto name = credential_of(sources); !name.empty()) return name;
  }
  return guards ? guards->credential() : std::string_view{};
}

core::Async<http::Response> SetEndpoint::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (auto refusal = refuse_part(request)) return std::move(*refusal);
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
  }
  if (auto refusal = plan_->query.refuse(request)) return std::move(*refusal);
  return run(exchange);
}

namespace {

// PostgreSQL receives the rows on a connection that is reserved until the set is written. A request gets one only after
// `gathered_bytes` of its body, or all of it, have arrived. It must then send at least `slowest_holder` bytes a second.
constexpr std::uint64_t gathered_bytes = 1 << 20;
constexpr std::uint32_t slowest_holder = 16 << 10;

std::string counts(const sql::SetOutcome& outcome) {
  return "\"inserted\":" + std::to_string(outcome.inserted) + ",\"updated\":" + std::to_string(outcome.updated) +
         ",\"deleted\":" + std::to_string(outcome.deleted) + ",\"unchanged\":" + std::to_string(outcome.unchanged);
}

http::Response refuse_taken(std::string_view table, std::uint64_t rows) {
  return http::problem(
      409, "Deleting the rows of \"" + std::string(table) + "\" that the body leaves out would delete " +
               std::to_string(rows) +
               " of its own rows with them, by ON DELETE CASCADE or a trigger; nothing has been written. Leave"
               " these out as well, keep the rows that they depend on, or give them others to depend on.");
}

http::Response refuse_deletions(const sql::SetOutcome& outcome) {
  const std::string deleted = std::to_string(outcome.deleted);
  return http::problem(
      409,
      "The request would delete " + deleted +
          " rows, which is more than it may; nothing has been written. With the query parameter max-deleted=" +
          deleted + " it may.",
      counts(outcome));
}

}  // namespace

core::Task<http::Response> SetEndpoint::run(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  const SetWritePlan& plan = *plan_;
  sql::TransactionOptions options;
  options.isolation = plan.isolation;
  std::vector<sql::Setting> settings;
  if (plan.role) {
    auto made = settings_of(*plan.role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
    options.settings = settings;
  }
  if (plan.guards) {
    const Instant deadline = plan.timeout ? reactor_.now() + *plan.timeout : never;
    auto refusal =
        co_await plan.guards->ask(exchange, database_, {.deadline = deadline, .settings = settings}, failures_);
    if (refusal) co_return std::move(*refusal);
  }
  std::string scratch;
  bool dry_run = false;
  const http::QueryString query(request.query, scratch);
  if (const auto asked = query.find("dry-run")) {
    dry_run = asked->text.empty() || asked->text == "true" || asked->text == "1";
    if (!dry_run && asked->text != "false" && asked->text != "0") {
      co_return http::problem(400, "The parameter \"dry-run\" must be true or false.");
    }
  }
  std::optional<sql::DeletionLimit> deletions;
  if (const auto asked = query.find("max-deleted")) {
    deletions = parse_deletion_limit(asked->text);
    if (!deletions || deletions->percent) {
      co_return http::problem(400, "The parameter \"max-deleted\" must be a number of rows.");
    }
  }
  Binder binder;
  std::vector<sql::Argument> shared;
  if (auto bound = binder.bind(plan.shared, exchange, {}, shared); !bound) co_return refuse_value(bound.error());
  if (request.body == nullptr) co_return http::problem(400, "The request has no body.");
  const auto format = body_format(request);
  if (!takes(plan.shape, format)) co_return refuse_type(request.method, plan.shape);
  if (announces_more(request, plan.body_limit)) co_return refuse_length();
  if (plan.more_body != 0) request.body->allow_more(plan.more_body);

  const auto staging = database_.stage(plan.set, options);
  SetRows rows(plan, *format, exchange);
  std::uint64_t left = plan.body_limit;
  std::size_t kept = 0;
  bool gathering = plan.set.dialect == sql::Dialect::postgres;
  while (!rows.ended()) {
    if (!gathering && rows.take()) {
      if (auto added = co_await rows.hand_over(*staging); !added)
        co_return failures_.answer(added.error(), Failed::writing);
      if (rows.faults().empty() && staging->is_refused()) break;  // skips the rest of the body
      continue;
    }
    if (rows.ended()) break;
    auto piece = co_await request.body->read();
    if (!piece) co_return refuse_body(piece.error());
    if (piece->size() > left) co_return refuse_length();
    left -= piece->size();
    if (piece->empty()) {
      rows.reader().finish();
      gathering = false;
    } else {
      rows.reader().feed(*piece);
      if (gathering && plan.body_limit - left > gathered_bytes) {
        gathering = false;
        request.body->hurry(slowest_holder);
      }
    }
    if (const std::size_t held = rows.held(); held > kept) {
      if (auto more = request.body->keep(held - kept); !more) co_return refuse_body(more.error());
      kept = held;
    }
  }
  if (rows.broken()) co_return refuse_unreadable(rows.faults());
  if (rows.reader().single() && !plan.takes_object) {
    co_return http::problem(400, "The body must be a list: one object in its place would be the whole set.");
  }
  if (!rows.faults().empty()) co_return refuse_rows(rows.faults());
  if (auto added = co_await rows.hand_over(*staging); !added)
    co_return failures_.answer(added.error(), Failed::writing);
  // A body with only a header may also come from a failed export. A client that means an empty set sends `[]`.
  const bool is_vague = rows.empty() && *format != BodyFormat::json;
  if (!deletions) deletions = is_vague ? sql::DeletionLimit{.amount = 0} : plan.max_deleted;
  auto outcome = co_await staging->apply(shared, {.commit = !dry_run,
                                                  .retries = plan.retries,
                                                  .deadline = plan.timeout ? reactor_.now() + *plan.timeout : never,
                                                  .deletions = *deletions});
  if (!outcome) co_return failures_.answer(outcome.error(), Failed::writing, {}, plan.shared);
  failures_.got_through();
  if (!outcome->faults.empty()) {
    const std::vector<RowFault> faults = rows.located(outcome->faults);
    if (outcome->refusal) co_return failures_.answer(*outcome->refusal, Failed::writing, errors_member(faults));
    co_return outcome->outside ? refuse_outside(faults) : refuse_rows(faults);
  }
  if (outcome->taken != 0) co_return refuse_taken(plan.table_name, outcome->taken);
  if (outcome->too_many_deleted) co_return refuse_deletions(*outcome);
  http::Response response;
  response.fields.add_trusted("Content-Type", "application/json");
  Buffer body;
  body.append("{" + counts(*outcome) + "}");
  response.body = std::move(body);
  co_return response;
}

}  // namespace sluice::api
