// Any bytes as the query string of a list: a refusal with a reason, or a statement whose text is the same whatever the
// values are. Cursors are read, and written cursors are read back.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/list/cursor.h"
#include "api/list/statement.h"
#include "api/query/query.h"
#include "fuzzing.h"
#include "sql/postgres/types.h"

namespace {

using namespace sluice;
using namespace sluice::api;
using sluice::fuzz::require;

struct Fixture {
  explicit Fixture(sql::Dialect dialect) {
    plan.dialect = dialect;
    plan.search = list::Plan::Search::words;
    plan.searched = {1};
    base.text = "SELECT * FROM t";
    const bool is_postgres = dialect == sql::Dialect::postgres;
    const auto add = [&](std::string name, std::uint32_t oid, std::string declared, query::Column column) {
      base.columns.push_back(
          {.name = name, .type = nullptr, .type_id = is_postgres ? oid : 0, .declared_type = declared});
      base.columns.back().type = is_postgres ? sql::postgres::builtin_type(oid)
                                             : std::make_shared<const sql::Type>(sql::Type{sql::Form::dynamic});
      column.name = name;
      column.type = *resident::ValueType::of(base.columns.back());
      column.filters = column.sorts = column.shows = column.orders = true;
      plan.vocabulary.columns.push_back(std::move(column));
      plan.columns.push_back({.name = "list." + list::quoted_name(name),
                              .quoted = list::quoted_name(name),
                              .kind = is_postgres ? sql::ColumnKind::by_server : sql::sqlite_column_kind(declared)});
    };
    add("id", 23, "INTEGER", {});
    add("t", 25, "TEXT", {.is_text = true});
    add("a\"b", 25, "TEXT", {.is_text = true});
    add("b", 16, "BOOLEAN", {.is_boolean = true});
    add("at", 1184, "", {});
    plan.columns[0].may_be_null = false;
    plan.vocabulary.skips_empty = plan.vocabulary.pages = plan.vocabulary.searches = plan.vocabulary.counts = true;
    plan.order = {{0, false}};
  }
  list::Plan plan;
  sql::Statement base;
};

std::optional<std::string> text_of(const Fixture& fixture, const query::Query& query) {
  std::vector<sql::Argument> arguments;
  list::StatementText text(fixture.plan, fixture.base, query, arguments);
  const auto added = text.add_conditions();
  if (!added) {
    require(!added.error().detail.empty());
    return std::nullopt;
  }
  const std::vector<list::CursorValue> values(text.keys().size(), list::CursorValue{.text = "1"});
  if (query.after) text.add_cursor(values, list::StatementText::Direction::forward);
  std::string statement;
  text.finish(51, query.offset.value_or(0), query.count != query::Count::none, statement);
  return statement;
}

// Other values in place of those of text columns.
void replace_values(const Fixture& fixture, query::Condition& condition) {
  for (query::Condition& part : condition.parts) replace_values(fixture, part);
  if (condition.kind != query::Condition::Kind::compare || condition.op == query::Operator::is) return;
  if (!fixture.plan.vocabulary.columns[condition.column].is_text) return;
  for (std::string& value : condition.values) value = "x";
}

void try_cursor(std::string_view text, sql::Dialect dialect) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
    const auto values = list::read_cursor(text, 0, count, dialect);
    if (!values) continue;
    require(values->size() == count);
    const auto again = list::read_cursor(list::write_cursor(0, *values), 0, count, dialect);
    require(again.has_value());
    for (std::size_t i = 0; i < count; ++i) {
      require((*again)[i].text == (*values)[i].text && (*again)[i].type == (*values)[i].type);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Fixture fixtures[] = {Fixture(sql::Dialect::sqlite), Fixture(sql::Dialect::postgres)};
  if (size == 0) return 0;
  const Fixture& fixture = fixtures[data[0] & 1];
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try_cursor(input, fixture.plan.dialect);
  auto query = query::parse(fixture.plan.vocabulary, input);
  if (!query) {
    require(query.error().parameter.size() <= 64 && !query.error().detail.empty());
    return 0;
  }
  const auto text = text_of(fixture, *query);
  if (!text) return 0;
  for (query::Condition& condition : query->conditions) replace_values(fixture, condition);
  for (std::string& word : query->words) word = "x";
  require(text_of(fixture, *query) == text, "a value is part of the statement");
  return 0;
}
