#include "app/routes/room/published.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "app/prepare/opened_database.h"
#include "app/routes/room/sql_text.h"
#include "base/ascii.h"
#include "sql/parameters.h"
#include "sql/set/table.h"

namespace sluice::app {
namespace {

constexpr std::string_view apply_hint = "`sluice rooms sql --apply` makes what rooms need";

}  // namespace

core::Task<sql::Result<std::vector<std::string>>> texts_of(sql::Database& database, std::string query) {
  const auto statement = co_await database.prepare(query, {});
  if (!statement) co_return std::unexpected(statement.error());
  const auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(cursor.error());
  std::vector<std::string> texts;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (const sql::Field& field : block->fields.first(block->rows * block->columns.size())) {
      texts.emplace_back(field.is_null() ? std::string_view() : field.view());
    }
  }
  co_return texts;
}

PublishedPreparation::PublishedPreparation(Preparation& preparation, const RoomOptions& options, std::size_t database,
                                           RoomComponent::Prepared& into)
    : preparation_(preparation),
      options_(options),
      database_(*preparation.databases[database].database),
      into_(into),
      dialect_(preparation.options().databases[database].value.dialect()) {}

bool PublishedPreparation::complain(Position position, std::string text, std::string hint) {
  preparation_.errors.push_back(
      {position, fmt::format("room {}: {}", options_.path.value, std::move(text)), std::move(hint)});
  return false;
}

sql::Result<bool> PublishedPreparation::learn_table() {
  const bool is_done = prepare_table();
  if (away_) return std::unexpected(std::move(*away_));
  return is_done;
}

sql::Result<bool> PublishedPreparation::prepare() {
  const bool is_done = prepare_history() && check_triggers() && prepare_questions();
  if (away_) return std::unexpected(std::move(*away_));
  return is_done;
}

bool PublishedPreparation::prepare_table() {
  const Position position = options_.history.changes.tables.front().position;
  auto published = published_of(options_, dialect_);
  if (!published) {
    return complain(options_.history.query.position, published.error(), "SELECT ... FROM messages WHERE room = :id");
  }
  const auto table = preparation_.loop.run(sql::describe_table(database_, dialect_, published->table));
  if (!table) {
    if (is_away(table.error())) return away_ = table.error(), false;
    return complain(position, describe(table.error()));
  }
  if (table->find("seq") == nullptr) {
    return complain(position, fmt::format("the table {} has no column \"seq\"", published->table),
                    std::string(apply_hint));
  }
  if (dialect_ == sql::Dialect::postgres) {
    const auto schema = texts(std::string(rooms::current_schema));
    if (!schema) return false;
    if (!schema->empty()) published->schema = schema->front();
  }
  for (const std::string& name : published->columns) {
    const sql::TableColumn* column = table->find(name);
    if (column == nullptr) return complain(position, fmt::format("{} has no column {}", published->table, name));
    const std::string type = to_lower(column->type);
    std::optional<rooms::ValueForm> form;
    if (dialect_ == sql::Dialect::sqlite) {
      if (column->kind == sql::ColumnKind::integer) form = rooms::ValueForm::integer;
      if (column->kind == sql::ColumnKind::text || column->kind == sql::ColumnKind::any) form = rooms::ValueForm::text;
    } else if (type == "integer" || type == "bigint" || type == "smallint") {
      form = rooms::ValueForm::integer;
    } else if (type == "uuid") {
      form = rooms::ValueForm::uuid;
    } else if (type == "text" || type.starts_with("character varying")) {
      form = rooms::ValueForm::text;
    }
    if (form == rooms::ValueForm::text && !column->collation.empty()) form.reset();
    if (!form) {
      return complain(
          position,
          fmt::format("{}.{} has the type {}{}: the columns of rooms are integers, uuids and texts "
                      "without a collation of their own",
                      published->table, name, column->type, column->collation.empty() ? "" : " with a collation"));
    }
    into_.forms.push_back(*form);
  }
  into_.published = std::move(*published);
  return true;
}

std::optional<sql::Statement> PublishedPreparation::take(std::string_view text,
                                                         const std::vector<sql::Parameter>& declared,
                                                         std::string_view hint) {
  auto statement = preparation_.loop.run(database_.prepare(text, declared));
  if (statement) return std::move(*statement);
  if (is_away(statement.error())) {
    away_ = statement.error();
  } else {
    complain(options_.position, describe(statement.error()), std::string(hint));
  }
  return std::nullopt;
}

bool PublishedPreparation::prepare_history() {
  const sql::Statement& query = into_.get->statement;
  const Position position = options_.history.query.position;
  if (!contains(query.columns, std::string_view("seq"), &sql::Column::name)) {
    return complain(position, "the history returns no column \"seq\"", "SELECT seq, ... ORDER BY seq LIMIT 200");
  }
  auto history = std::make_shared<rooms::History>();
  history->query = query;
  history->dialect = dialect_;
  const auto names = into_.pattern.names();
  bool has_after = false;
  for (const sql::Parameter& parameter : query.parameters) {
    const auto place = std::ranges::find(names, parameter.name);
    if (place != names.end()) {
      const auto index = static_cast<std::size_t>(place - names.begin());
      history->arguments.emplace_back(index);
      history->types.push_back(into_.forms[index] == rooms::ValueForm::integer ? sql::ParameterType::integer
                                                                               : sql::ParameterType::text);
    } else if (parameter.name == "after") {
      has_after = true;
      history->arguments.emplace_back();
      history->types.push_back(sql::ParameterType::integer);
    } else {
      return complain(position,
                      fmt::format("the history is read once for all clients, so it cannot have :{}", parameter.name),
                      "its parameters are those of the path and :after");
    }
  }
  if (!has_after) return complain(position, "the history does not begin after :after", "... AND seq > :after");
  auto counters =
      take(rooms::counters_of(into_.published), {{.name = "rooms", .declared = sql::ParameterType::texts}}, apply_hint);
  if (!counters) return false;
  history->counters = std::move(*counters);
  into_.history = std::move(history);
  return true;
}

std::optional<std::vector<std::string>> PublishedPreparation::texts(const std::string& query) {
  auto found = preparation_.loop.run(texts_of(database_, query));
  if (found) return std::move(*found);
  away_ = found.error();
  return std::nullopt;
}

bool PublishedPreparation::check_triggers() {
  const Located<std::string>& table = options_.history.changes.tables.front();
  const auto triggers = texts(rooms::check_of(into_.published));
  if (!triggers) return false;
  if (triggers->empty()) {
    return complain(table.position,
                    fmt::format("the table {} has no triggers for rooms, or those of another version", table.value),
                    std::string(apply_hint));
  }
  for (const api::RequireOptions& one : options_.require.items) {
    if (!has_nameless_exists(one)) continue;
    preparation_.plan.warnings.push_back(
        fmt::format("{}: room {}: this exists() names no table, so it is asked when clients join, and not again",
                    preparation_.source.files().place(one.that.position), options_.path.value));
  }
  into_.members = members_of(options_);
  if (dialect_ == sql::Dialect::sqlite) return true;
  for (const std::string& members : into_.members) {
    const auto trigger = texts(rooms::check_of_members(members));
    if (!trigger) return false;
    if (!trigger->empty()) continue;
    return complain(options_.require.items.front().that.position,
                    fmt::format("the table {}, which \"require\" reads, has no trigger for rooms", members),
                    std::string(apply_hint));
  }
  return true;
}

bool PublishedPreparation::prepare_questions() {
  if (into_.get->guards == nullptr) return true;
  for (const api::Guards::Query& query : into_.get->guards->queries()) {
    // exists(SELECT ... WHERE member = $2), with its parameters replaced by values of a list.
    const bool is_postgres = dialect_ == sql::Dialect::postgres;
    const std::string& text = query.statement.text;
    std::string condition = text.substr(text.find('('), text.rfind(')') - text.find('(') + 1);
    const char mark = is_postgres ? '$' : '?';
    for (std::size_t k = query.statement.parameters.size(); k > 0; --k) {
      const std::string placeholder = mark + std::to_string(k);
      const std::string value =
          is_postgres ? fmt::format("asked.p{}", k) : fmt::format("json_extract(asked.value, '$[{}]')", k);
      bool quoted = false;
      for (std::size_t at = 0; at < condition.size(); ++at) {
        if (condition[at] == '\'') quoted = !quoted;
        if (quoted || !std::string_view(condition).substr(at).starts_with(placeholder)) continue;
        if (at + placeholder.size() < condition.size() && is_digit(condition[at + placeholder.size()])) continue;
        condition.replace(at, placeholder.size(), value);
        at += value.size() - 1;
      }
    }
    std::string asked;
    if (is_postgres) {
      std::string columns = "n integer";
      if (!query.statement.described_types.empty()) {
        std::string names = "SELECT ";
        for (const std::uint32_t oid : query.statement.described_types) {
          names += fmt::format("{}format_type({}, NULL) AS t{}", names.ends_with(' ') ? "" : ",", oid, names.size());
        }
        const auto types = texts(names);
        if (!types) return false;
        for (std::size_t k = 0; k < types->size(); ++k) columns += fmt::format(", p{} {}", k + 1, (*types)[k]);
      }
      asked = fmt::format("SELECT asked.n FROM json_to_recordset(:asked::json) AS asked({}) WHERE exists{}", columns,
                          condition);
    } else {
      asked = fmt::format(
          "SELECT json_extract(asked.value, '$[0]') AS n FROM json_each(:asked) AS asked WHERE exists{}", condition);
    }
    auto statement = take(asked, {}, "`require` is asked for many clients at once, in this form");
    if (!statement) return false;
    into_.questions.push_back({.statement = std::move(*statement), .sources = query.sources});
  }
  return true;
}

}  // namespace sluice::app
