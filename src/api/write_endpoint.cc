#include "api/write_endpoint.h"

#include <algorithm>
#include <cstdint>
#include <forward_list>

#include <fmt/format.h>

#include "api/refusals.h"
#include "api/table_sql.h"
#include "base/assert.h"
#include "base/buffer.h"
#include "core/back_off.h"
#include "http/target.h"
#include "sql/retries.h"
#include "sql/set/fault_text.h"
#include "sql/set/set.h"

namespace sluice::api {
namespace {

constexpr std::uint32_t default_rows = 10'000;

bool begins_with_insert(std::string_view sql) {
  const auto begin = sql.find_first_not_of(" \t\r\n");
  if (begin == sql.npos) return false;
  constexpr std::string_view word = "insert";
  sql.remove_prefix(begin);
  return sql.size() > word.size() &&
         std::ranges::equal(sql.substr(0, word.size()), word, {}, [](char c) { return static_cast<char>(c | 0x20); });
}

// Roughly the memory that a statement's result takes.
std::size_t memory_of(const sql::Written& written) {
  constexpr std::size_t block = 512;
  if (!written.owner) return sizeof written;
  std::size_t bytes = sizeof written + block + written.rows.fields.size() * sizeof(sql::Field);
  for (const sql::Field& field : written.rows.fields) bytes += field.size;
  return bytes;
}

// Whether the parameter is a key column, without which the row would be unknown.
bool is_key(std::string_view parameter, const MethodOptions& options) {
  return std::ranges::any_of(options.columns, [&](const auto& column) {
    return column.value.key && sql::shared_parameter(column.name.value) == parameter;
  });
}

// For a table: whether the request identifies the row without its body.
bool names_its_row(http::Method method, const MethodOptions& options, const http::Pattern& pattern) {
  if (options.table.value.empty() || (method != http::Method::put && method != http::Method::patch)) return false;
  return std::ranges::none_of(options.columns, [&](const auto& column) {
    return column.value.key && column_source(column, pattern).from == From::body;
  });
}

}  // namespace

std::expected<LocationPattern, std::string> LocationPattern::parse(std::string_view text,
                                                                   std::span<const sql::Column> columns) {
  LocationPattern pattern;
  pattern.written_ = text;
  if (!text.starts_with('/')) return std::unexpected("it begins with \"/\"");
  while (!text.empty()) {
    const auto open = text.find('{');
    Part part{.literal = std::string(text.substr(0, open))};
    if (open == text.npos) {
      pattern.parts_.push_back(std::move(part));
      break;
    }
    const auto close = text.find('}', open);
    if (close == text.npos) return std::unexpected("a \"{\" without its \"}\"");
    const std::string_view name = text.substr(open + 1, close - open - 1);
    if (std::ranges::find(columns, name, &sql::Column::name) == columns.end()) {
      return std::unexpected("the statement returns no column \"" + std::string(name) + "\"");
    }
    part.column = name;
    pattern.parts_.push_back(std::move(part));
    text.remove_prefix(close + 1);
  }
  return pattern;
}

std::optional<std::string> LocationPattern::of(const sql::Block& block) const {
  std::string location;
  for (const Part& part : parts_) {
    location += part.literal;
    if (!part.column) continue;
    const auto column = std::ranges::find(block.columns, *part.column, &sql::Column::name);
    if (column == block.columns.end()) return std::nullopt;  // the table has changed since the start
    const sql::Field& field = block.row(0)[static_cast<std::size_t>(column - block.columns.begin())];
    if (field.is_null()) return std::nullopt;
    if (field.view().empty() && location.ends_with('/')) return std::nullopt;  // no route accepts an empty segment
    http::append_escaped(location, field.view());
  }
  // Clients would remove a dot segment, escaped or not, and the router an extension. Both lead to another path.
  if (http::has_dot_segment(location) || http::gains_format(location, written_)) return std::nullopt;
  return location;
}

bool creates(http::Method method, const MethodOptions& options) {
  if (options.creates) return options.creates->value;
  const bool of_table = !options.table.value.empty();
  if (method == http::Method::put) return of_table;
  return method == http::Method::post && (of_table || begins_with_insert(options.sql.value));
}

WritePlan::WritePlan(http::Method method_, const EndpointOptions& endpoint, const MethodOptions& options,
                     const http::Pattern& pattern, std::vector<sql::Statement> statements, bool updates_first)
    : path(endpoint.path.value),
      method(method_),
      formats(endpoint.offered_formats()),
      object((options.returns ? options.returns->value : endpoint.returns) != Returns::rows),
      inserts(creates(method, options)),
      inserts_row(!options.table.value.empty() && (method == http::Method::post || method == http::Method::put)),
      timeout(endpoint.timeout),
      isolation(options.isolation),
      retries(options.retries),
      query(endpoint.query) {
  row_limits.row_bytes = row_limit(endpoint, options);
  most_rows = options.rows ? options.rows->value : default_rows;
  const bool in_body = method != http::Method::delete_;
  for (sql::Statement& statement : statements) {
    Step step{.statement = std::move(statement), .sources = {}};
    for (std::size_t i = 0; i < step.statement.parameters.size(); ++i) {
      const sql::Parameter& parameter = step.statement.parameters[i];
      const auto of_table = table_source(parameter.name, options, pattern);
      Source source = of_table ? *of_table : source_of(parameter, endpoint.params, pattern, in_body);
      take_type(source, step.statement, i);
      if (of_table && (method == http::Method::patch || method == http::Method::delete_)) {
        source.required |= is_key(parameter.name, options) && !source.default_text;
      }
      if (source.from == From::body) {
        const auto known = std::ranges::find(shape.names, source.key);
        source.body_index = static_cast<std::size_t>(known - shape.names.begin());
        if (known == shape.names.end()) shape.names.push_back(source.key);
        if (source.trim) shape.trims.push_back(source.body_index);
      }
      step.sources.push_back(std::move(source));
    }
    query.add(step.sources);
    before.push_back(std::move(step));
  }
  std::vector<Source*> sources;
  for (Step& step : before) {
    for (Source& source : step.sources) sources.push_back(&source);
  }
  uploads = plan_uploads(sources, !shape.names.empty());
  if (!uploads.empty()) {
    // receive_uploads() limits the fields as received. The form that it makes of them may be longer.
    uploads.field_bytes = std::min(most_field_bytes, std::exchange(row_limits.row_bytes, SIZE_MAX));
  }
  main = std::move(before.back());
  before.pop_back();
  if (updates_first) {
    update_first = std::move(before.back());
    before.pop_back();
  }
  // The statement of a table changes nothing if it finds no row, so there is nothing to roll back.
  must_do = may_miss() && (options.table.value.empty() || !before.empty());
  const auto of_body = [](const Source& source) { return source.from == From::body; };
  const auto is_password = [](const Source& source) { return source.password != nullptr; };
  for (const std::span<const Source> all : all_sources()) has_password |= std::ranges::any_of(all, is_password);
  one_row = object || has_password || options.one_row || names_its_row(method, options, pattern) ||
            std::ranges::any_of(before, [&](const Step& step) { return std::ranges::any_of(step.sources, of_body); });
  const auto& columns = main.statement.columns;
  if (!options.location.value.empty()) location = *LocationPattern::parse(options.location.value, columns);
  rows_layouts = make_layouts(columns, false);
  object_layouts = make_layouts(columns, true);
}

void WritePlan::take_types(const sql::Table& table) {
  must_do |= table.acts_alone && (inserts_row || may_miss());
  for (Step* const step : {&main, update_first ? &*update_first : nullptr}) {
    if (step == nullptr) continue;
    for (Source& source : step->sources) {
      const sql::TableColumn* const column = table.find(source.name);
      if (column != nullptr && !source.asks_presence) take_column(*column, source);
    }
  }
}

void WritePlan::take_patch(PatchSql sql, sql::Dialect dialect, sql::Statement read,
                           std::optional<sql::Statement> current) {
  patch.emplace(std::move(sql), dialect, main, std::move(read), std::move(current));
}

std::vector<std::span<const Source>> WritePlan::all_sources() const {
  std::vector<std::span<const Source>> all{main.sources};
  for (const Step& step : before) all.push_back(step.sources);
  if (update_first) all.push_back(update_first->sources);
  if (current) all.push_back(current->sources);
  return all;
}

std::string_view WritePlan::credential() const {
  for (const std::span<const Source> sources : all_sources()) {
    if (const auto name = credential_of(sources); !name.empty()) return name;
  }
  return guards ? guards->credential() : std::string_view{};
}

Failed WritePlan::failed() const {
  if (takes_body()) return Failed::writing;
  const auto all = all_sources();
  const bool has_some =
      guards || std::ranges::any_of(all, [](std::span<const Source> sources) {
        return std::ranges::any_of(sources, [](const Source& one) { return one.from != From::environment; });
      });
  return has_some ? Failed::writing_parameters : Failed::writing_alone;
}

namespace {

// The source, outside the body, whose value is NULL although the column of its name is NOT NULL; null if absent.
const Source* missing_source(const sql::BrokenRule& rule, std::span<const Source> sources,
                             std::span<const sql::Argument> values) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const From from = sources[i].from;
    if (values[i].text || from == From::body || from == From::upload || from == From::environment) continue;
    if (std::ranges::find(rule.columns, sources[i].name) != rule.columns.end()) return &sources[i];
  }
  return nullptr;
}

http::Response refuse_left_out(RowReader* reader) {
  std::string errors;
  if (reader != nullptr) {
    const RowFault fault = reader->fault_at("", "is left out by the database");
    errors = errors_member({&fault, 1});
  }
  return http::problem(409, "A rule of the database has left the row out; nothing has been written.", errors);
}

}  // namespace

// The body's bytes and what was found in them.
struct WriteEndpoint::Rows {
  bool has_body = false;
  std::string bytes;
  std::optional<BodyFormat> format;
  bool merges = false;  // the body is a merge patch
  std::vector<Upload> uploads;
  Passwords passwords;  // hashed once, also if the transaction is tried again
  std::size_t count = 1;
  std::string errors;               // for several rows: the member that names the row refused by the database
  std::span<const Source> refused;  // sources of the refused statement
  const Source* missing = nullptr;  // has no value, and the database refuses NULL
  // PATCH of a table: keeps the current statement, and those that returned other columns than were prepared.
  std::shared_ptr<const WritePlan::Step> step;
  std::vector<std::shared_ptr<const WritePlan::Step>> changed;
};

struct WriteEndpoint::MergedRow {
  std::vector<Value> values;
  std::forward_list<std::string> texts;
};

struct WriteEndpoint::Outcome {
  void add(sql::Written&& done) {
    changes += done.changes;
    if (written.empty() || done.rows.rows != 0) written.push_back(std::move(done));
  }

  std::vector<sql::Written> written;  // of the main statement: the first result, for its columns, and those with rows
  std::uint64_t changes = 0;
  bool created = false;          // `main` has inserted a row
  std::vector<RowFault> faults;  // rows that the configuration refuses; nothing has been written
  std::optional<http::Response> refusal;
};

core::Async<http::Response> WriteEndpoint::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (request.body != nullptr && !plan_->takes_body()) return handle_without_body(exchange, *this);
  const auto preference = preference_of(request, plan_->formats);
  if (!preference) return not_acceptable(plan_->formats);
  if (auto refusal = refuse_part(request)) return std::move(*refusal);
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
  }
  if (auto refusal = plan_->query.refuse(request)) return std::move(*refusal);
  return run(exchange, *preference);
}

core::Task<http::Response> WriteEndpoint::run(http::Exchange& exchange, Preference preference) {
  http::Request& request = exchange.request;
  preference.trailers = false;
  Rows rows;
  const Conditions conditions(request);
  if (plan_->current && plan_->current->required && !conditions.has_match() && !conditions.wants_nothing()) {
    co_return refuse_unconditional();
  }
  // Usually the conflicting transaction has changed the row, so its new state must be compared.
  const bool conditional = plan_->current && !conditions.none();
  const std::uint32_t most_retries = retries_ == Retries::callers ? 0
                                     : conditional                ? std::max(plan_->retries, 1U)
                                                                  : plan_->retries;
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
  }
  if (!plan_->uploads.empty()) {
    // Do not store a file before it is known that the client may write.
    if (plan_->guards) {
      const Instant deadline = plan_->timeout ? reactor_.now() + *plan_->timeout : never;
      auto refusal =
          co_await plan_->guards->ask(exchange, database_, {.deadline = deadline, .settings = settings}, failures_);
      if (refusal) co_return std::move(*refusal);
    }
    auto received = co_await receive_uploads(request, plan_->uploads, stores_);
    if (!received) co_return std::move(received.error());
    rows.has_body = true;
    rows.uploads = std::move(received->uploads);
    rows.bytes = std::move(received->fields);
    if (!received->has_fields) rows.bytes = "&";  // distinguishes a form without fields from an empty body
    if (!plan_->uploads.whole) rows.format = BodyFormat::form;
  } else if (!plan_->shape.names.empty()) {
    rows.has_body = request.body != nullptr;
    if (!rows.has_body) co_return http::problem(400, "The request has no body.");
    rows.format = body_format(request);
    rows.merges = rows.format == BodyFormat::merge_patch && plan_->patch;
    if (rows.merges) rows.format = BodyFormat::json;
    if (!takes(plan_->shape, rows.format)) {
      co_return refuse_type(request.method, plan_->shape, plan_->patch.has_value());
    }
    if (announces_more(request, plan_->body_limit)) co_return refuse_length();
    if (plan_->more_body != 0) request.body->allow_more(plan_->more_body);
    // Counted twice, because the reader of the rows has a copy.
    auto refused = co_await read_whole(request, plan_->body_limit, 2, rows.bytes);
    if (refused) co_return std::move(*refused);
  }
  core::BackOff back_off(reactor_, 2ms, 200ms);
  sql::Retries retries(most_retries);
  for (std::uint32_t tries = 0;; ++tries) {
    auto outcome = co_await write(exchange, conditions, settings, rows);
    if (outcome) {
      if (outcome->refusal) co_return std::move(*outcome->refusal);
      co_return answer(request, preference, *outcome);
    }
    // Not a conflict after a retry, which would have found a row inserted meanwhile: another row has the unique value.
    if (outcome.error().sqlstate == "23505" && (tries != 0 || most_retries == 0)) {
      outcome.error().failure = sql::Failure::statement;
    }
    if (retries_ == Retries::callers || !retries.again(outcome.error())) {
      if (rows.missing != nullptr) co_return refuse_value({.source = rows.missing, .reason = "is missing"});
      co_return failures_.answer(outcome.error(), plan_->failed(), rows.errors, rows.refused,
                                 plan_->main.statement.text);
    }
    co_await back_off.wait();
  }
}

// Checks all rows before the first is written.
core::Task<sql::Result<WriteEndpoint::Outcome>> WriteEndpoint::write(const http::Exchange& exchange,
                                                                     const Conditions& conditions,
                                                                     std::span<const sql::Setting> settings,
                                                                     Rows& rows) {
  const WritePlan& plan = *plan_;
  Outcome outcome;
  rows.errors.clear();  // from the previous attempt
  rows.missing = nullptr;
  Binder binder;
  binder.take(rows.uploads);
  binder.take(rows.passwords);
  std::vector<sql::Argument> arguments;
  const auto reader_of_body = [&] {
    auto reader = RowReader::make(*rows.format, plan.shape, plan.row_limits);
    reader->feed(rows.bytes);
    return reader;
  };
  const auto next_of = [](RowReader& reader) {
    auto next = reader.next();
    if (next != RowReader::Next::need_more) return next;
    reader.finish();
    return reader.next();
  };

  if (rows.format) {
    rows.count = 0;
    auto reader = reader_of_body();
    std::optional<schema::RowCheck> check;
    if (plan.schema) check.emplace(*plan.schema, plan.shape, *rows.format);
    for (auto next = next_of(*reader); next != RowReader::Next::end; next = next_of(*reader)) {
      if (next == RowReader::Next::broken) {
        outcome.refusal = refuse_unreadable({&reader->fault(), 1});
        co_return outcome;
      }
      const std::size_t row = rows.count++;
      if (rows.count > plan.most_rows) {
        outcome.refusal = http::problem(413, fmt::format("The body has more than {} rows.", plan.most_rows));
        co_return outcome;
      }
      RowFault fault;
      if (next == RowReader::Next::bad_row) {
        fault = reader->fault();
      } else {
        if (check && !check->holds(*reader, most_faults, outcome.faults)) {
          if (outcome.faults.size() == most_faults) break;
          continue;
        }
        arguments.clear();
        auto bound = binder.bind(plan.main.sources, exchange, reader->row(), arguments);
        if (bound && row == 0) bound = bind_before(binder, exchange, reader->row());
        const auto differs = differing_echo(plan.echoes, exchange.request, reader->row());
        if (bound && !differs) continue;
        if (!bound && bound.error().source->from != From::body) {
          outcome.refusal = refuse_value(bound.error());
          co_return outcome;
        }
        fault = bound ? reader->fault_of(*differs, std::string(differing_echo_reason))
                      : reader->fault_of(bound.error().source->body_index, std::move(bound.error().reason));
      }
      outcome.faults.push_back(std::move(fault));
      if (outcome.faults.size() == most_faults) break;
    }
    if (plan.one_row && rows.count != 1 && outcome.faults.size() < most_faults) {
      outcome.refusal = refuse_row_count(rows.count);
      co_return outcome;
    }
    if (!outcome.faults.empty()) {
      outcome.refusal = refuse_rows(outcome.faults);
      co_return outcome;
    }
  }
  // Before the transaction begins, because it may take a while.
  if (plan.has_password) {
    SLUICE_ASSERT(hasher_ != nullptr);
    if (!co_await rows.passwords.hash_all(*hasher_, exchange.request.peer)) {
      outcome.refusal = refuse_password();
      co_return outcome;
    }
  }

  const Instant deadline = plan.timeout ? reactor_.now() + *plan.timeout : never;
  sql::Isolation isolation = plan.isolation;
  const bool conditional = plan.current && !conditions.none();
  if (conditional) {
    // A later write to the row makes this transaction fail. A row that does not exist cannot be locked.
    const bool locks = plan.current->lock && !conditions.has_none_match();
    isolation = std::max(isolation, locks ? sql::Isolation::repeatable_read : sql::Isolation::serializable);
  }
  const auto transaction =
      database_.begin({.deadline = deadline, .isolation = isolation, .settings = settings, .must_do = plan.must_do});
  if (plan.guards && plan.uploads.empty()) {
    auto refused = co_await plan.guards->ask(exchange, *transaction, rows.refused);
    if (!refused) co_return std::unexpected(std::move(refused.error()));
    if (*refused) {
      outcome.refusal = std::move(**refused);
      co_return outcome;
    }
  }
  if (conditional) {
    auto refused = co_await compare(exchange, conditions, *transaction);
    if (!refused) {
      rows.refused = plan.current->sources;
      co_return std::unexpected(std::move(refused.error()));
    }
    if (*refused) {
      outcome.refusal = std::move(**refused);
      co_return outcome;
    }
  }
  auto reader = rows.format ? reader_of_body() : nullptr;
  const auto note_refusal = [&](const sql::Error& error, std::span<const Source> sources,
                                std::span<const sql::Argument> values_of) {
    rows.refused = sources;
    if (error.sqlstate == "23502" && error.rule) rows.missing = missing_source(*error.rule, sources, values_of);
    if (!reader || error.at_commit || !sql::is_of_a_row(error.sqlstate)) return;
    const std::size_t field = error.rule ? broken_field(*error.rule, sources) : SIZE_MAX;
    std::string reason = sql::refusal_text(error.sqlstate, {});
    RowFault fault =
        field != SIZE_MAX ? reader->fault_of(field, std::move(reason)) : reader->fault_at("", std::move(reason));
    if (error.rule) fault.constraint = error.rule->constraint;
    rows.errors = errors_member({&fault, 1});
  };
  std::span<const Value> values;
  const auto take_row = [&] {
    if (!reader) return;
    (void)next_of(*reader);  // returns a row, as in the first pass
    values = reader->row();
  };
  if (rows.count != 0) take_row();
  for (const WritePlan::Step& step : plan.before) {
    arguments.clear();
    if (auto bound = binder.bind(step.sources, exchange, values, arguments); !bound) {
      outcome.refusal = refuse_value(bound.error());
      co_return outcome;
    }
    auto done = co_await transaction->execute(step.statement, arguments);
    if (!done) {
      rows.refused = step.sources;
      co_return std::unexpected(std::move(done.error()));
    }
  }
  if (rows.count == 0) {
    if (auto committed = co_await transaction->commit(); !committed) {
      co_return std::unexpected(std::move(committed.error()));
    }
    co_return outcome;
  }
  MergedRow merged;
  std::size_t counted = 1;  // entries of outcome.written already counted; the first is not counted
  for (std::size_t row = 0; row < rows.count; ++row) {
    if (row != 0) {
      // The results of many short rows may need more memory than the rows did.
      if (outcome.written.size() > counted) {
        counted = outcome.written.size();
        if (auto kept = exchange.request.body->keep(memory_of(outcome.written.back())); !kept) {
          outcome.refusal = refuse_body(kept.error());
          co_return outcome;
        }
      }
      take_row();
    }
    if (rows.merges) {
      if (auto done = co_await merge(exchange, values, *transaction, merged); !done) {
        rows.refused = plan.main.sources;
        co_return std::unexpected(std::move(done.error()));
      }
      values = merged.values;
    }
    if (plan.patch) rows.step = patches_.of(*plan.patch, values, rows.uploads);
    const WritePlan::Step& step = plan.patch ? *rows.step : plan.main;
    arguments.clear();
    if (auto bound = binder.bind(step.sources, exchange, values, arguments); !bound) {
      outcome.refusal = refuse_value(bound.error());
      co_return outcome;
    }
    const bool last = row + 1 == rows.count;
    if (plan.update_first) {
      std::vector<sql::Argument> changes;
      if (auto bound = binder.bind(plan.update_first->sources, exchange, values, changes); !bound) {
        outcome.refusal = refuse_value(bound.error());
        co_return outcome;
      }
      auto updated = co_await transaction->execute(plan.update_first->statement, changes);
      if (!updated) {
        note_refusal(updated.error(), plan.update_first->sources, changes);
        co_return std::unexpected(std::move(updated.error()));
      }
      if (updated->changes != 0) {
        outcome.add(std::move(*updated));
        if (!last) continue;
        if (auto committed = co_await transaction->commit(); !committed) {
          co_return std::unexpected(std::move(committed.error()));
        }
        co_return outcome;
      }
      arguments.clear();  // the binder's texts have moved
      (void)binder.bind(plan.main.sources, exchange, values, arguments);
      outcome.created = true;
    }
    auto done = co_await (last ? transaction->finish(step.statement, arguments, plan.object ? 1 : SIZE_MAX)
                               : transaction->execute(step.statement, arguments));
    if (!done) {
      note_refusal(done.error(), step.sources, arguments);
      // Another transaction has inserted the row meanwhile. A retry can replace it.
      if (plan.update_first && done.error().sqlstate == "23505") done.error().failure = sql::Failure::conflict;
      co_return std::unexpected(std::move(done.error()));
    }
    if (plan.patch) take_columns_of_main(*done, rows);
    if (plan.inserts_row && done->nothing(!plan.main.statement.columns.empty())) {
      outcome.refusal = refuse_left_out(reader.get());
      co_return outcome;
    }
    outcome.add(std::move(*done));
  }
  co_return outcome;
}

core::Task<sql::Result<void>> WriteEndpoint::merge(const http::Exchange& exchange, std::span<const Value> row,
                                                   sql::Transaction& transaction, MergedRow& merged) const {
  const PatchPlan& patch = *plan_->patch;
  merged.texts.clear();
  merged.values.assign(row.begin(), row.end());
  Binder binder;
  std::vector<sql::Argument> arguments;
  // A value that cannot be bound is refused with the UPDATE.
  if (!patch.merges(row) || !binder.bind(patch.current().sources, exchange, row, arguments))
    co_return sql::Result<void>{};
  const auto found = co_await transaction.execute(patch.current().statement, arguments);
  if (!found) co_return std::unexpected(found.error());
  if (found->rows.rows > 1) {
    co_return std::unexpected(sql::Error{sql::Failure::statement, {}, "more than one row for a merge patch", 0});
  }
  if (found->rows.rows == 1) patch.merge(found->rows.row(0), merged.values, merged.texts);
  co_return sql::Result<void>{};
}

// The statement of a PATCH may be destroyed before the answer is made, and with it its list of columns.
void WriteEndpoint::take_columns_of_main(sql::Written& written, Rows& rows) const {
  const auto& columns = plan_->main.statement.columns;
  if (columns.empty()) {  // PatchSql::read says that the row exists, and the UPDATE would have counted it
    written.changes += written.rows.rows;
    written.rows = {};
  } else if (written.rows.columns.data() == rows.step->statement.columns.data()) {
    written.rows.columns = columns;
  } else {
    rows.changed.push_back(rows.step);
  }
}

core::Task<sql::Result<std::optional<http::Response>>> WriteEndpoint::compare(const http::Exchange& exchange,
                                                                              const Conditions& conditions,
                                                                              sql::Transaction& transaction) const {
  const CurrentRow& current = *plan_->current;
  Binder binder;
  std::vector<sql::Argument> arguments;
  if (auto bound = binder.bind(current.sources, exchange, {}, arguments); !bound) {
    co_return std::optional(refuse_value(bound.error()));
  }
  // Lock the row before reading it. A concurrent writer's change is then visible or causes a conflict.
  if (current.lock && !conditions.has_none_match()) {
    auto locked = co_await transaction.execute(*current.lock, arguments);
    if (!locked) co_return std::unexpected(std::move(locked.error()));
  }
  auto found = co_await transaction.execute(current.statement, arguments);
  if (!found) co_return std::unexpected(std::move(found.error()));
  const sql::Block& row = found->rows;
  if (row.rows > 1) {
    co_return std::unexpected(sql::Error{sql::Failure::statement, {}, "more than one row for returns = \"object\"", 0});
  }
  switch (row.rows == 0 ? conditions.judge_nothing() : conditions.judge(current.version.state(row))) {
    case Conditions::Verdict::proceed:
      break;
    case Conditions::Verdict::stale:
      co_return std::optional(refuse_stale());
    case Conditions::Verdict::malformed:
      co_return std::optional(http::refuse_mixed_any());
    case Conditions::Verdict::known:
      co_return std::optional(refuse_existing());
  }
  co_return std::optional<http::Response>{};
}

// The index in Shape::names of the body's value that violates the rule, or SIZE_MAX.
std::size_t WriteEndpoint::broken_field(const sql::BrokenRule& rule, std::span<const Source> sources) const {
  if (rule.parameter != 0 && rule.parameter <= sources.size()) {
    const Source& source = sources[rule.parameter - 1];
    if (source.from == From::body && !source.key.empty()) return source.body_index;
  }
  return field_of(sql::broken_columns(rule, plan_->constraints.get()), sources);
}

std::expected<void, ValueFault> WriteEndpoint::bind_before(Binder& binder, const http::Exchange& exchange,
                                                           std::span<const Value> row) const {
  std::vector<sql::Argument> unused;
  for (const WritePlan::Step& step : plan_->before) {
    unused.clear();
    if (auto bound = binder.bind(step.sources, exchange, row, unused); !bound) return bound;
  }
  return {};
}

http::Response WriteEndpoint::answer(const http::Request& request, const Preference& preference,
                                     const Outcome& outcome) const {
  const WritePlan& plan = *plan_;
  failures_.got_through();
  std::size_t count = 0;
  for (const sql::Written& written : outcome.written) count += written.rows.rows;
  const bool has_columns = !plan.main.statement.columns.empty();
  // An UPDATE or a DELETE that found no row.
  if (plan.may_miss() && (has_columns ? count == 0 : outcome.changes == 0)) {
    return refuse_missing(request);
  }
  http::Response response;
  const bool created = plan.inserts && (!plan.update_first || outcome.created);
  // A SELECT that calls a function reports no changes.
  response.status = created && (outcome.changes != 0 || count != 0) ? 201 : 200;
  if (response.status == 201 && plan.location && count == 1) {
    for (const sql::Written& written : outcome.written) {
      if (written.rows.rows == 0) continue;
      if (auto location = plan.location->of(written.rows)) response.fields.add_owned("Location", std::move(*location));
    }
  }
  if (plan.returned && count == 1) {
    for (const sql::Written& written : outcome.written) {
      if (written.rows.rows == 0) continue;
      if (const auto state = plan.returned->state(written.rows)) {
        response.fields.add_owned("ETag", tag_of(*state, preference.format, preference.header));
        response.tag_takes_suffix = true;
      }
    }
  }
  if (!has_columns || (plan.object && count == 0)) {
    if (response.status == 200) response.status = 204;
    return response;
  }
  response.fields.add_trusted("Content-Type", sql::media_type(preference.format, preference.header));
  if (preference.negotiated) response.fields.add_trusted("Vary", "Accept");
  // Uses the statement's current columns, in case the table has changed.
  const auto columns = outcome.written.empty() ? std::span<const sql::Column>(plan.main.statement.columns)
                                               : outcome.written.front().rows.columns;
  std::unique_ptr<const sql::Layout> changed;
  const sql::Layout* layout =
      (plan.object ? plan.object_layouts : plan.rows_layouts)[static_cast<std::size_t>(preference.format)].get();
  if (columns.data() != plan.main.statement.columns.data()) {
    changed =
        std::make_unique<const sql::Layout>(preference.format, columns, sql::EncodeOptions{.object = plan.object});
    layout = changed.get();
  }
  sql::Encoder encoder(*layout);
  Buffer body;
  encoder.begin(body, preference.header);
  for (const sql::Written& written : outcome.written) encoder.rows(written.rows, body);
  encoder.end(body);
  response.fields.add_owned("Row-Count", std::to_string(encoder.row_count()));
  response.body = std::move(body);
  return response;
}

}  // namespace sluice::api
