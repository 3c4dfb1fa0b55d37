#include "app/routes/endpoint/prepare_endpoint.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "api/file_endpoint.h"
#include "api/table_sql.h"
#include "app/config/near_name.h"
#include "app/config/statement.h"
#include "app/config/text.h"
#include "app/config/values.h"
#include "app/routes/endpoint/prepare_list.h"
#include "base/contains.h"
#include "sql/compared.h"
#include "sql/reading.h"
#include "sql/tokens.h"

namespace sluice::app {
namespace {

// The statement inside exists().
std::string_view asked(const api::Guards::Query& query) {
  const std::string_view text = query.statement.text;
  return text.substr(api::exists_statement_offset, text.rfind(')') - api::exists_statement_offset);
}

}  // namespace

core::Task<sql::Result<void>> EndpointPreparation::read_columns(sql::Database& database, const sql::Statement& query,
                                                                std::vector<StoredColumn>& into) {
  auto cursor = co_await database.query(query, {}, {});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      into.push_back({.table = std::string(row[0].view()),
                      .name = row[1].is_null() ? std::string{} : std::string(row[1].view()),
                      .type = row[2].is_null() ? std::string{} : std::string(row[2].view()),
                      .row_id = row[3].view() != "0",
                      .not_null = row[4].view() != "0",
                      .generated = row[5].view() != "0"});
      const auto strictness = row[6].view() != "0" ? sql::Strictness::strict : sql::Strictness::loose;
      into.back().kind = sql::sqlite_column_kind(into.back().type, strictness);
    }
  }
  co_return sql::Result<void>{};
}

EndpointPreparation::EndpointPreparation(Preparation& preparation, const api::EndpointOptions& options,
                                         std::size_t database)
    : loop_(preparation.loop),
      options_(options),
      database_options_(preparation.options().databases[database].value),
      database_(*preparation.databases[database].database),
      all_(preparation.options()),
      source_(preparation.source),
      constraints_(preparation.databases[database].constraints),
      errors_(preparation.errors),
      warnings_(preparation.plan.warnings),
      hints_(preparation.plan.hints),
      advises_(preparation.advises),
      dialect_(database_options_.dialect()),
      role_(api::role_plan(database_options_)),
      error_map_(api::ErrorMap::make(options.errors, all_.errors)) {
  made_.enums = preparation.enums_of(database);
}

sql::Result<std::optional<PreparedEndpoint>> EndpointPreparation::prepare() {
  auto pattern = http::Pattern::parse(options_.path.value);
  if (!pattern) {
    errors_.push_back({.position = options_.path.position, .message = pattern.error()});
    return std::nullopt;
  }
  made_.pattern = std::move(*pattern);
  declared_ = api::declared_parameters(options_, made_.pattern);
  if (!options_.get.value.empty()) prepare_get();
  for (const auto& [method, writing] : options_.writing_methods()) prepare_method(method, *writing);
  if (options_.changes) prepare_changes();
  if (away_) return std::unexpected(std::move(*away_));
  check_values();
  for (const auto* statement : config::statements_of(options_)) {
    std::ranges::move(config::check_quoted(options_, *statement, style(), source_, errors_, warnings_),
                      std::back_inserter(used_));
  }
  if (whole_) config::check_parameters(options_, {used_.begin(), used_.end()}, style(), source_, errors_);
  return std::move(made_);
}

void EndpointPreparation::prepare_get() {
  auto prepared =
      options_.parallel
          ? loop_.run(database_.prepare_parallel(options_.get.value, declared_, options_.parallel->reading()))
          : loop_.run(database_.prepare(options_.get.value, declared_));
  if (prepared) {
    const auto reads = loop_.run(sql::check_reading(database_, database_options_, options_.get.value, declared_));
    if (!reads) prepared = std::unexpected(reads.error());
  }
  auto statement = take(options_.get, std::move(prepared));
  if (statement && statement->columns.empty()) {
    complain(options_.get.position, "its statement returns no columns");
    whole_ = false;
    return;
  }
  if (!statement) return;
  config::check_columns(options_, options_.get, statement->columns, errors_);
  if (options_.returns == api::Returns::file) {
    if (const std::string wrong = api::check_file_columns(statement->columns); !wrong.empty()) {
      complain(options_.get.position, wrong);
    }
  }
  learn_facts(http::Method::get, statement->text, statement->columns);
  auto made = std::make_shared<api::EndpointPlan>(options_, made_.pattern, std::move(*statement));
  take_kinds(made->statement.text, made->sources);
  made->role = role_;
  made->from_client |= role_ && !role_->settings.empty();
  made->errors = error_map_;
  for (const api::Source& source : made->sources) {
    if (source.from == api::From::upload) complain(options_.get.position, "GET takes no file for :" + source.name);
    if (source.from == api::From::body) complain(options_.get.position, "GET takes no body for :" + source.name);
  }
  if (const auto guards = guards_of(nullptr, false)) made->guards = *guards;
  if (made->guards) made->guards->add_to(made->query);
  if (options_.list) prepare_list(*made);
  made_.get = std::move(made);
  if (options_.version.value.empty()) return;
  if (!made_.get->version) {
    std::vector<std::string_view> names;
    for (const sql::Column& column : made_.get->statement.columns) names.push_back(column.name);
    complain(options_.version.position, "\"get\" returns no column \"" + options_.version.value + "\"",
             config::did_you_mean(options_.version.value, names));
  } else if (!options_.writing_methods().empty()) {
    prepare_current_row();
  }
}

void EndpointPreparation::prepare_list(api::EndpointPlan& plan) {
  auto facts =
      loop_.run(sql::column_facts(database_, dialect_, plan.statement.text, std::vector(plan.statement.columns)));
  const std::size_t before = errors_.size();
  ListPreparation preparation(loop_, database_, dialect_, options_, plan, std::move(facts), errors_);
  auto list = preparation.prepare();
  if (!list) {
    away_ = std::move(list.error());
    return;
  }
  plan.list = std::move(*list);
  if (errors_.size() != before || !advises_) return;
  const auto add = [&](const std::vector<std::string>& texts, std::vector<std::string>& into) {
    for (const std::string& text : texts) {
      into.push_back(fmt::format("{}: endpoint {}: {}", source_.files().place(options_.list->position),
                                 options_.path.value, text));
    }
  };
  const auto advice = preparation.advise();
  add(advice.warnings, warnings_);
  add(advice.hints, hints_);
}

void EndpointPreparation::learn_facts(http::Method method, std::string text, std::vector<sql::Column> columns) {
  if (!all_.openapi || columns.empty()) return;
  auto known = loop_.run(sql::column_facts(database_, dialect_, std::move(text), std::move(columns)));
  made_.facts.emplace_back(method, std::move(known));
}

// Whether GET returns only columns of one table's rows. A transaction that has waited for a lock sees changes to the
// locked rows, but not changes to other rows that the statement reads.
bool EndpointPreparation::reads_its_rows_alone() {
  const auto plain = sql::plain_columns(options_.get.value, dialect_);
  if (!plain || plain->tables.size() != 1 ||
      std::ranges::count(plain->items, sql::PlainColumns::Kind::expression, &sql::PlainColumns::Item::kind) != 0)
    return false;
  const auto table = loop_.run(sql::describe_table(database_, dialect_, plain->tables[0].name));
  return table && table->has_indices;  // false for a view
}

// Prepares how writing methods read GET's row.
void EndpointPreparation::prepare_current_row() {
  auto statement = take(options_.get, loop_.run(database_.prepare_writing(options_.get.value, declared_)));
  if (!statement) return;
  auto current = std::make_shared<api::CurrentRow>();
  current->statement = std::move(*statement);
  current->sources = made_.get->sources;
  current->version = *made_.get->version;
  current->required = options_.require_match.value;
  if (dialect_ == sql::Dialect::postgres && !(role_ && role_->takes_role()) && reads_its_rows_alone()) {
    const std::string text = api::locking_statement(options_.get.value);
    auto lock = loop_.run(database_.prepare_writing(text, declared_));
    if (!lock && lock.error().failure != sql::Failure::statement) {
      refused(options_.get, lock.error());
      return;
    }
    if (lock) current->lock = std::move(*lock);
  }
  current_ = std::move(current);
}

void EndpointPreparation::prepare_changes() {
  if (!made_.get && !options_.get.value.empty()) return;  // reported already
  auto made = std::make_shared<api::changes::Plan>();
  const std::string& path = options_.path.value;
  made->path = path + (path.ends_with('/') ? "changes" : "/changes");
  made->options = *options_.changes;
  made->role = role_;
  made->errors = error_map_;
  if (made_.get) {
    made->guards = made_.get->guards;
  } else if (const auto guards = guards_of(nullptr, false)) {
    made->guards = *guards;
  }
  made->query = api::QueryNames(options_.query);
  if (made->guards) made->guards->add_to(made->query);
  for (const auto& table : options_.changes->tables) {
    if (dialect_ != sql::Dialect::sqlite) break;  // PostgreSQL uses "notify"
    const std::string text = "SELECT 1 AS present FROM main." + sql::quoted_identifier(table.value);
    auto prepared = loop_.run(database_.prepare(text, {}));
    if (!prepared) prepared.error().position = 0;  // the text is not in the file
    (void)take(table, std::move(prepared));
  }
  if (role_ && role_->takes_role()) {
    const std::string text = api::changes::permission_statement(options_.get.value);
    auto prepared = loop_.run(database_.prepare(text, declared_));
    if (!prepared) prepared.error().position = 0;
    made->permission = take(options_.get, std::move(prepared));
  }
  made_.changes = std::move(made);
}

void EndpointPreparation::prepare_method(http::Method method, const api::MethodOptions& writing) {
  if (!writing.table.value.empty()) {
    prepare_table(method, writing);
    return;
  }
  std::vector<Located<std::string>> texts = writing.before;
  texts.push_back(writing.sql);
  prepare_statements(method, writing, writing, std::move(texts), false);
}

void EndpointPreparation::prepare_table(http::Method method, const api::MethodOptions& named) {
  api::MethodOptions writing = named;
  std::erase_if(writing.columns, [](const auto& column) { return column.value.ignored.value && !column.value.from; });
  const auto table = loop_.run(sql::describe_table(database_, dialect_, writing.table.value));
  if (!table) {
    refused(writing.table, table.error());
    return;
  }
  if (!config::check_columns(options_, method, writing, *table, errors_)) {
    whole_ = false;
    return;
  }
  made_.tables.emplace_back(method, *table);
  warn_of_left_out(method, writing, *table);
  if (writing.is_set()) {
    prepare_set(method, writing, named, *table);
    return;
  }
  auto made =
      api::make_table_sql(method, writing, made_.pattern, dialect_, *table, raised_version(method, writing, *table));
  if (!made) {
    complain(writing.table.position, made.error());
    whole_ = false;
    return;
  }
  for (const auto& column : writing.columns) used_.push_back(api::column_source(column, made_.pattern).key);
  std::vector<Located<std::string>> texts = writing.before;
  const bool updates_first = !made->update_first.empty();
  if (updates_first) texts.emplace_back(std::move(made->update_first), writing.table.position);
  texts.emplace_back(std::move(made->sql), writing.table.position);
  prepare_statements(method, writing, named, std::move(texts), updates_first, std::move(made->patch));
}

std::string EndpointPreparation::raised_version(http::Method method, const api::MethodOptions& writing,
                                                const sql::Table& table) {
  const std::string& version = options_.version.value;
  if ((method != http::Method::put && method != http::Method::patch) || !current_ || current_->version.is_whole_row() ||
      !table.has_indices) {
    return {};
  }
  // `get` may give the column another name.
  const auto& columns = made_.get->statement.columns;
  const auto place =
      static_cast<std::size_t>(std::ranges::find(columns, version, &sql::Column::name) - columns.begin());
  const auto plain = sql::plain_columns(options_.get.value, dialect_);
  const bool is_renamed =
      plain && plain->items.size() == columns.size() && plain->items[place].kind == sql::PlainColumns::Kind::column;
  const sql::TableColumn* column = is_renamed ? table.find(plain->items[place].name) : nullptr;
  if (column == nullptr) column = table.find(version);
  if (column == nullptr || column->generated) return {};  // as xmin::text does, it changes without an assignment
  const auto listed = std::ranges::find(writing.columns, column->name, [](const auto& one) { return one.name.value; });
  const bool is_listed = listed != writing.columns.end();
  if (is_listed && listed->value.key) return {};
  if (!api::next_version(dialect_, *column).empty()) return column->name;
  if (!is_listed && !table.updates_trigger) {
    complain(options_.version.position,
             fmt::format("{} writes {}, and nothing changes its column \"{}\" then: Sluice can raise integers and set "
                         "times, but the column's type is \"{}\"",
                         http::name_of(method), table.name, column->name, column->type),
             "take a column of another type, version = \"*\", or add a trigger that changes the column");
  }
  return {};
}

// Only a warning, because a trigger may set the column.
void EndpointPreparation::warn_of_left_out(http::Method method, const api::MethodOptions& writing,
                                           const sql::Table& table) {
  if (method == http::Method::delete_ || (method == http::Method::patch && !writing.set.value)) return;
  if (!writing.insert.value.empty()) return;
  for (const sql::TableColumn& column : table.columns) {
    if (!column.not_null || column.row_id || column.generated || !column.default_value.empty()) continue;
    const auto names = [&](const auto& one) { return one.name.value == column.name; };
    if (std::ranges::any_of(writing.columns, names)) continue;
    const Position position = writing.table.position;
    warnings_.push_back(fmt::format(
        "{}: endpoint {}: new rows have no \"{}\", which has no default and must not be NULL; add columns.{}",
        source_.files().place(position), options_.path.value, column.name, column.name));
  }
}

void EndpointPreparation::prepare_set(http::Method method, const api::MethodOptions& writing,
                                      const api::MethodOptions& named, const sql::Table& table) {
  auto set = api::set_options(method, writing, made_.pattern);
  for (const auto& [key, statement] : writing.row_statements()) {
    if (!statement->value.empty() && !check_row_statement(*statement, set, table)) return;
  }
  auto prepared = loop_.run(sql::prepare_set(database_, dialect_, table, std::move(set), declared_));
  if (!prepared) {
    refused(writing.existing.value.empty() ? writing.table : writing.existing, prepared.error());
    return;
  }
  if (!writing.existing.value.empty()) {
    auto existing = take(writing.existing, loop_.run(database_.prepare(writing.existing.value, declared_)));
    if (!existing) return;
    existing_.emplace_back(method, std::move(*existing));
  }
  for (const sql::Parameter& parameter : prepared->parameters) used_.push_back(parameter.name);
  for (const auto& column : writing.columns) used_.push_back(api::column_source(column, made_.pattern).key);
  auto made = std::make_shared<api::SetWritePlan>(method, options_, writing, made_.pattern, std::move(*prepared));
  made->take_types(table);
  if (dialect_ == sql::Dialect::sqlite && !writing.existing.value.empty()) {
    const sql::Statement& existing = existing_.back().second;
    std::vector<api::Source> found(existing.parameters.size());
    take_kinds(existing.text, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto same = std::ranges::find(made->set.parameters, existing.parameters[i].name, &sql::Parameter::name);
      const auto place = static_cast<std::size_t>(same - made->set.parameters.begin());
      if (place >= made->shared.size()) continue;
      made->shared[place].column = found[i].column;
      made->shared[place].use = found[i].use;
    }
  }
  complete(*made, named);
  if (const auto guards = guards_of(&writing, false)) made->guards = *guards;
  if (made->guards) made->guards->add_to(made->query);
  check_guards(made->guards.get(), made->shape.names, writing);
  made_.sets.push_back(std::move(made));
}

// Returns false if it has reported an error.
bool EndpointPreparation::check_row_statement(const Located<std::string>& text, const sql::SetOptions& set,
                                              const sql::Table& table) {
  const auto style =
      dialect_ == sql::Dialect::postgres ? sql::PlaceholderStyle::dollar : sql::PlaceholderStyle::question;
  std::vector<std::string> names = made_.pattern.names();
  for (const sql::SetColumn& column : set.columns) names.push_back(column.name);
  for (const auto& param : options_.params) {
    const api::From from = api::source_of({param.name.value, {}}, options_.params, made_.pattern, false).from;
    if (from != api::From::body && from != api::From::upload) names.push_back(param.name.value);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto parsed = sql::parse_parameters(text.value, style);
  for (std::size_t i = 0; parsed && i < parsed->names.size(); ++i) {
    const std::string& name = parsed->names[i];
    if (std::ranges::find(names, name) != names.end()) continue;
    const auto place = std::ranges::find_if(parsed->placeholders, [&](const auto& one) {
      return std::string_view(text.value).substr(one.source_begin + 1, one.source_end - one.source_begin - 1) == name;
    });
    std::string hint = config::did_you_mean(name, known);
    if (hint.empty())
      hint =
          fmt::format("fields of the body are columns: add columns.{0}; or add params.{0} with another \"from\"", name);
    errors_.push_back(
        {source_.locate(text.position, sql::character_position(text.value, place->source_begin)),
         fmt::format(
             "endpoint {}: \":{}\" is no column of the set, and no parameter of the path or of [endpoint.params]",
             options_.path.value, name),
         std::move(hint)});
    whole_ = false;
    return false;
  }
  return take(text, loop_.run(sql::prepare_row_statement(database_, dialect_, table, set, text.value, declared_)))
      .has_value();
}

// Otherwise exists() could check one value and the statement write another.
void EndpointPreparation::check_guards(const api::Guards* guards, std::span<const std::string> of_body,
                                       const api::MethodOptions& writing) {
  if (guards == nullptr) return;
  for (const api::Guards::Query& query : guards->queries()) {
    for (const api::Source& source : query.sources) {
      if (source.from != api::From::query || std::ranges::find(of_body, source.key) == of_body.end()) continue;
      complain(writing.position,
               fmt::format("\":{0}\" is the query parameter \"{0}\" in exists() and the body's field in the "
                           "statement: say `params.{0}.from`, or give one of them another name",
                           source.key));
    }
  }
}

void EndpointPreparation::prepare_statements(http::Method method, const api::MethodOptions& writing,
                                             const api::MethodOptions& named, std::vector<Located<std::string>> texts,
                                             bool updates_first, std::optional<api::PatchSql> patch) {
  const auto prepare_own = [&](const std::string& text) {
    auto prepared = loop_.run(database_.prepare_writing(text, declared_));
    if (!prepared) prepared.error().position = 0;
    return take(writing.table, std::move(prepared));
  };
  std::optional<sql::Statement> read;
  std::optional<sql::Statement> current;
  if (patch) {
    if (!(read = prepare_own(patch->read))) return;
    if (!patch->current.empty() && !(current = prepare_own(patch->current))) return;
  }
  std::vector<sql::Statement> statements;
  for (const auto& text : texts) {
    auto prepared = loop_.run(database_.prepare_writing(text.value, declared_));
    // The text of a generated statement is not in the file, so a position in it is useless.
    if (!prepared && !writing.table.value.empty()) prepared.error().position = 0;
    if (auto statement = take(text, std::move(prepared))) statements.push_back(std::move(*statement));
  }
  if (statements.size() != texts.size()) return;
  config::check_columns(options_, texts.back(), statements.back().columns, errors_);
  // For a generated statement only the returned columns matter.
  const sql::Table* const table = writing.table.value.empty() ? nullptr : &made_.tables.back().second;
  for (const auto& text : texts) check_system_columns(text, table);
  learn_facts(method,
              table != nullptr ? "DELETE FROM " + table->name + " RETURNING " + writing.returning.value
                               : statements.back().text,
              statements.back().columns);
  if (!writing.location.value.empty()) {
    const auto location = api::LocationPattern::parse(writing.location.value, statements.back().columns);
    if (!location) {
      complain(writing.location.position, location.error());
      return;
    }
  }
  auto made =
      std::make_shared<api::WritePlan>(method, options_, writing, made_.pattern, std::move(statements), updates_first);
  for (const auto& [its_method, its_table] : made_.tables) {
    if (its_method == method) made->take_types(its_table);
  }
  for (api::WritePlan::Step& step : made->before) take_kinds(step.statement.text, step.sources);
  if (writing.table.value.empty()) take_kinds(made->main.statement.text, made->main.sources);
  complete(*made, named);
  if (current_) {
    made->current = current_;
    made->returned = api::returned_version(current_->version, options_.version.value, made_.get->statement.columns,
                                           made->main.statement.columns);
  }
  if (!settle_uploads(*made, writing)) return;
  // A method that receives files checks its guards beforehand, outside of its transaction.
  if (const auto guards = guards_of(&writing, made->uploads.empty())) made->guards = *guards;
  if (made->guards) made->guards->add_to(made->query);
  check_guards(made->guards.get(), made->shape.names, writing);
  if (patch) made->take_patch(std::move(*patch), dialect_, std::move(*read), std::move(current));
  if (made->current) made->query.add(made->current->sources);
  made_.writes.push_back(std::move(made));
}

// PostgreSQL prepares an INSERT into a partitioned table that returns such a column, and fails when it executes it.
void EndpointPreparation::check_system_columns(const Located<std::string>& text, const sql::Table* known) {
  if (dialect_ != sql::Dialect::postgres) return;
  const sql::Tokens tokens(text.value, sql::Tokens::Case::kept);
  if (!tokens.is_word(0, "insert") || !tokens.is_word(1, "into") || !tokens.is_identifier(2)) return;
  std::size_t at = 2;
  while (at < tokens.size() && !tokens.is_word(at, "returning")) ++at;
  constexpr std::array<std::string_view, 4> failing{"xmin", "xmax", "cmin", "cmax"};
  const auto is_failing = [&](std::size_t i) {
    return std::ranges::any_of(failing, [&](std::string_view name) { return tokens.is_word(i, name); });
  };
  while (at < tokens.size() && !is_failing(at)) ++at;
  if (at == tokens.size()) return;
  std::optional<sql::Table> read;
  if (known == nullptr) {
    std::string name(tokens[2].text);
    if (tokens.is_sign(3, ".") && tokens.is_identifier(4)) name += "." + std::string(tokens[4].text);
    auto described = loop_.run(sql::describe_table(database_, dialect_, std::move(name)));
    if (!described) return;
    read = std::move(*described);
    known = &*read;
  }
  if (!known->is_partitioned) return;
  complain(text.position,
           fmt::format("{} is partitioned, and PostgreSQL cannot return {} of a row that it inserts into such a table",
                       known->name, tokens[at].text),
           "return a column of the table, such as a counter, or use version = \"*\"");
}

template <class WritePlan>
void EndpointPreparation::complete(WritePlan& made, const api::MethodOptions& writing) {
  made.role = role_;
  made.errors = error_map_;
  made.body_limit = api::body_limit(options_, writing, all_.server.body_limit);
  if (made.body_limit > all_.server.body_limit) made.more_body = made.body_limit - all_.server.body_limit;
  take_unwritten_fields(made, writing);
  if (!constraints_) {
    auto read = loop_.run(sql::read_constraints(database_, dialect_));
    if (!read && read.error().failure != sql::Failure::statement) {
      away_ = read.error();
      return;
    }
    constraints_ = read ? *read : std::make_shared<const sql::Constraints>(std::vector<sql::Constraints::Constraint>{});
  }
  made.constraints = constraints_;
  if (!writing.schema) return;
  const JsonOrFile& written = writing.schema->value;
  if (made.shape.names.empty()) {
    complain(writing.schema->position, "\"schema\" is of a body, and this method takes nothing from one");
    return;
  }
  made.schema = api::schema::Schema::parse(written.json).value();  // valid: it was checked before
  for (const std::string& name : made.schema->required()) {
    if (std::ranges::find(made.shape.names, name) != made.shape.names.end()) continue;
    complain(writing.schema->position, "the schema requires \"" + name + "\", which this method does not take");
  }
}

template <class WritePlan>
void EndpointPreparation::take_unwritten_fields(WritePlan& made, const api::MethodOptions& writing) {
  std::vector<std::string>& names = made.shape.names;
  if (names.empty()) return;
  const auto take = [&](const std::string& name) {
    const bool is_new = std::ranges::find(names, name) == names.end();
    if (is_new) names.push_back(name);
    return is_new;
  };
  for (const auto& column : writing.columns) {
    if (column.value.ignored.value) take(column.name.value);
    // A version that the body repeats, because UPDATE sets it to another value.
    const api::Source source = api::column_source(column, made_.pattern);
    if (source.from == api::From::body && !source.key.empty()) take(source.key);
  }
  for (const auto& param : options_.params) {
    if (!param.value.ignored.value) continue;
    take(param.name.value);
    used_.push_back(param.name.value);
  }
  const auto echo = [&](const api::Source& source) {
    if (source.from != api::From::path || !take(source.name)) return;
    made.echoes.push_back({.body_index = names.size() - 1, .path_index = source.path_index});
  };
  for (const auto& column : writing.columns) echo(api::column_source(column, made_.pattern));
  for (const auto& [method, table] : made_.tables) {
    if (method != made.method) continue;
    for (const sql::TableColumn& column : table.columns) {
      if (column.generated) take(column.name);
    }
  }
  if constexpr (requires { made.main; }) {
    if (!writing.columns.empty()) return;
    for (const api::Source& source : made.main.sources) echo(source);
  }
}

// Adds to the method's files the types that their stores allow, and reports errors. Returns false if a file has no
// store.
bool EndpointPreparation::settle_uploads(api::WritePlan& plan, const api::MethodOptions& writing) {
  const Position position = writing.position.line != 0 ? writing.position : options_.position;
  if (!plan.uploads.fault.empty()) {
    complain(position, std::string(http::name_of(plan.method)) + ": " + plan.uploads.fault);
    return false;
  }
  for (const auto* limit : {&writing.body_limit, &options_.body_limit}) {
    if (!plan.uploads.empty() && *limit) complain((*limit)->position, "the limits of files are those of their stores");
  }
  if (!plan.uploads.empty() && plan.method == http::Method::delete_) complain(position, "DELETE takes no files");
  for (api::UploadPlan::File& file : plan.uploads.files) {
    const auto& store = all_.stores[*all_.find_store(file.store)];  // unknown names were reported before
    for (const auto& type : store.value.types) file.types.push_back(type.value);
  }
  return true;
}

// Checks the values of each method in the file against the types that the database reports.
void EndpointPreparation::check_values() {
  std::vector<config::BoundValue> values;
  const auto add = [&](std::span<const api::Source> sources, const sql::Statement& statement) {
    const std::size_t first = values.size();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const bool described = i < statement.described_types.size();
      // The parameter of a column has a different name than the column.
      values.push_back({.source = &sources[i],
                        .oid = described ? statement.described_types[i] : 0,
                        .of_column = statement.parameters[i].name != sources[i].name});
    }
    if (dialect_ == sql::Dialect::sqlite) take_columns(statement.text, std::span(values).subspan(first));
  };
  const auto check = [&](http::Method method) {
    const sql::Table* table = nullptr;
    const api::MethodOptions* writing = nullptr;
    for (const auto& [its_method, its_options] : options_.writing_methods()) {
      if (its_method == method) writing = its_options;
    }
    for (const auto& [its_method, its_table] : made_.tables) {
      if (its_method == method) table = &its_table;
    }
    config::check_values(options_, writing, table, dialect_, values, source_, errors_);
    values.clear();
  };
  if (made_.get) {
    add(made_.get->sources, made_.get->statement);
    if (made_.get->guards) add_guards(*made_.get->guards, values);
    check(http::Method::get);
  }
  for (const auto& write : made_.writes) {
    for (const auto& step : write->before) add(step.sources, step.statement);
    if (write->update_first) add(write->update_first->sources, write->update_first->statement);
    add(write->main.sources, write->main.statement);
    if (write->guards) add_guards(*write->guards, values);
    check(write->method);
  }
  for (const auto& set : made_.sets) {
    for (const api::Source& source : set->staged) values.push_back({.source = &source, .of_column = true});
    for (std::size_t i = 0; i < set->shared.size(); ++i) {
      const bool of_column = set->set.parameters[i].name != set->shared[i].name;
      values.push_back({.source = &set->shared[i], .of_column = of_column});
    }
    add_existing(*set, values);
    if (set->guards) add_guards(*set->guards, values);
    check(set->method);
  }
}

void EndpointPreparation::read_stored() {
  const std::string_view text =
      "SELECT lower(m.name), lower(c.name), c.type, upper(c.type) = 'INTEGER' AND c.pk = 1 AND"
      " (SELECT count(*) FROM pragma_table_xinfo(m.name) WHERE pk <> 0) = 1, c.\"notnull\", c.hidden <> 0,"
      " coalesce((SELECT l.strict FROM pragma_table_list(m.name) l WHERE l.schema = 'main'), 0)"
      " FROM sqlite_schema m, pragma_table_xinfo(m.name) c"
      " WHERE m.type = 'table' AND m.sql NOT LIKE 'create virtual%' ORDER BY m.rowid, c.cid";
  stored_.emplace();
  const auto query = loop_.run(database_.prepare(text, {}));
  if (!query) return;
  const auto read = loop_.run(read_columns(database_, *query, *stored_));
  if (!read) stored_->clear();
}

const EndpointPreparation::StoredColumn* EndpointPreparation::find_stored(const sql::Compared& compared) const {
  // The column must be in exactly one of the tables, and the columns of all of them must be known.
  const StoredColumn* found = nullptr;
  for (const std::string& table : compared.tables) {
    bool known = false;
    std::size_t position = 0;
    for (const StoredColumn& column : *stored_) {
      if (column.table != table) continue;
      known = true;
      const bool is_it = compared.column.empty() ? !column.generated && position++ == compared.position
                                                 : column.name == compared.column;
      if (!is_it) continue;
      if (found != nullptr) return nullptr;
      found = &column;
    }
    if (!known) return nullptr;
  }
  return found;
}

std::vector<EndpointPreparation::Met> EndpointPreparation::met_columns(std::string_view statement,
                                                                       std::size_t parameters, sql::Mentions mentions) {
  std::vector<Met> met(parameters);
  const std::vector<sql::Compared> compared = sql::compared_columns(statement, mentions);
  if (compared.empty()) return met;
  if (!stored_) read_stored();
  std::vector<bool> differs(parameters);  // the parameter is used with columns of different types
  for (const sql::Compared& one : compared) {
    if (one.parameter >= parameters || differs[one.parameter]) continue;
    const StoredColumn* const found = find_stored(one);
    if (found == nullptr) continue;
    Met& its = met[one.parameter];
    differs[one.parameter] = its.column != nullptr && its.column->type != found->type;
    its.column = differs[one.parameter] ? nullptr : found;
    its.use = std::min(its.use, one.use);
  }
  return met;
}

void EndpointPreparation::take_columns(std::string_view statement, std::span<config::BoundValue> values) {
  const auto met = met_columns(statement, values.size(), sql::Mentions::one);
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (met[i].column == nullptr) continue;
    values[i].type = met[i].column->type;
    values[i].row_id = met[i].column->row_id;
  }
}

void EndpointPreparation::take_kinds(std::string_view statement, std::span<api::Source> sources) {
  if (dialect_ != sql::Dialect::sqlite) return;
  const auto met = met_columns(statement, sources.size(), sql::Mentions::any);
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (met[i].column == nullptr) continue;
    sql::TableColumn column;
    column.not_null = met[i].column->not_null && met[i].use != sql::Compared::Use::chosen;
    column.kind = met[i].column->kind;
    api::take_column(column, sources[i]);
    sources[i].use = met[i].use;
  }
}

void EndpointPreparation::add_guards(const api::Guards& guards, std::vector<config::BoundValue>& values) {
  for (const api::Guards::Query& query : guards.queries()) {
    const std::size_t first = values.size();
    for (std::size_t i = 0; i < query.sources.size(); ++i) {
      const auto& types = query.statement.described_types;
      values.push_back({.source = &query.sources[i], .oid = i < types.size() ? types[i] : 0});
    }
    // Only for conditions that must hold. In other conditions, a default may be meant to match nothing.
    if (dialect_ != sql::Dialect::sqlite || !query.must_hold) continue;
    take_columns(asked(query), std::span(values).subspan(first));
  }
}

void EndpointPreparation::add_existing(const api::SetWritePlan& set, std::vector<config::BoundValue>& values) {
  const auto existing = std::ranges::find(existing_, set.method, &std::pair<http::Method, sql::Statement>::first);
  if (existing == existing_.end()) return;
  const sql::Statement& statement = existing->second;
  std::vector<config::BoundValue> found;
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
    const auto parameter = std::ranges::find(set.set.parameters, statement.parameters[i].name, &sql::Parameter::name);
    if (parameter == set.set.parameters.end()) return;
    const bool described = i < statement.described_types.size();
    found.push_back({.source = &set.shared[static_cast<std::size_t>(parameter - set.set.parameters.begin())],
                     .oid = described ? statement.described_types[i] : 0});
  }
  if (dialect_ == sql::Dialect::sqlite) take_columns(statement.text, found);
  values.insert(values.end(), found.begin(), found.end());
}

std::optional<std::shared_ptr<const api::Guards>> EndpointPreparation::guards_of(const api::MethodOptions* method,
                                                                                 bool in_transaction) {
  auto guards = std::make_shared<api::Guards>();
  const bool in_body = method != nullptr && method != (options_.delete_ ? &*options_.delete_ : nullptr);
  const auto declared = api::declared_sources(options_, method, made_.pattern, in_body);
  for (const auto& one : options_.require.items) guards->add(one, made_.pattern, declared);
  if (method != nullptr) {
    for (const auto& one : method->require.items) guards->add(one, made_.pattern, declared);
  }
  if (guards->empty()) return nullptr;
  for (std::size_t i = 0; i < guards->queries().size(); ++i) {
    const auto& query = guards->queries()[i];
    const std::string text = api::exists_statement(query.written->sql);
    auto prepared =
        loop_.run(in_transaction ? database_.prepare_writing(text, declared_) : database_.prepare(text, declared_));
    if (!prepared && prepared.error().position > api::exists_statement_offset) {
      const std::string_view before = std::string_view(query.options->that.value).substr(0, query.written->offset);
      prepared.error().position += config::count_characters(before) - api::exists_statement_offset;
    }
    auto statement = take(query.options->that, std::move(prepared));
    if (!statement) return std::nullopt;
    const Position position = query.options->that.position;
    guards->prepared(i, std::move(*statement), options_, made_.pattern);
    take_kinds(asked(query), guards->queries()[i].sources);
    warn_of_what_clients_choose(guards->queries()[i], position);
  }
  return guards;
}

// If the name is a typing error, every client would be admitted.
void EndpointPreparation::warn_of_what_clients_choose(const api::Guards::Query& query, Position position) {
  for (const api::Source& source : query.sources) {
    const auto names = [&](const auto& one) { return one.name.value == source.name; };
    if (source.from != api::From::query || std::ranges::any_of(options_.params, names)) continue;
    std::string warning = fmt::format(
        "{}: endpoint {}: :{} in this requirement is a parameter of the query string, which the client chooses; "
        "add "
        "params.{}.from = \"query.{}\" if that is meant",
        source_.files().place(position), options_.path.value, source.name, source.name, source.name);
    if (!contains(warnings_, warning)) warnings_.push_back(std::move(warning));
  }
}

std::optional<sql::Statement> EndpointPreparation::take(const Located<std::string>& text,
                                                        sql::Result<sql::Statement> statement) {
  if (!statement) {
    refused(text, statement.error());
    return std::nullopt;
  }
  for (const sql::Parameter& parameter : statement->parameters) used_.push_back(parameter.name);
  return std::move(*statement);
}

void EndpointPreparation::refused(const Located<std::string>& text, const sql::Error& error) {
  whole_ = false;
  if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost) {
    away_ = error;
  } else {
    errors_.push_back(config::statement_refused("endpoint " + options_.path.value, text, error, source_,
                                                near_name(loop_, database_, dialect_, text.value, error)));
  }
}

void EndpointPreparation::complain(Position position, const std::string& what, std::string hint) {
  errors_.push_back(
      {.position = position, .message = "endpoint \"" + options_.path.value + "\": " + what, .hint = std::move(hint)});
}

}  // namespace sluice::app
