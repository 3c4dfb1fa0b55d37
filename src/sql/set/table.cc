#include "sql/set/table.h"

#include <algorithm>

namespace sluice::sql {
namespace {

// In both: name, type, not null, generated, default, collation.
constexpr std::string_view postgres_columns =
    "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
    " a.attgenerated <> '' OR a.attidentity = 'a',"
    " CASE WHEN a.attgenerated <> '' THEN NULL WHEN a.attidentity <> ''"
    " THEN 'nextval(' || quote_literal(pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)) || '::regclass)'"
    " ELSE pg_get_expr(d.adbin, d.adrelid) END, NULL"
    " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE a.attrelid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
constexpr std::string_view sqlite_columns =
    "SELECT c.name, c.type, c.\"notnull\", c.hidden <> 0, c.dflt_value,"
    // What keys are compared by is told of indices alone.
    " (SELECT k.coll FROM pragma_index_list(:name) i, pragma_index_xinfo(i.name) k"
    "  WHERE k.name = c.name AND k.coll <> 'BINARY' ORDER BY i.\"unique\" DESC LIMIT 1)"
    " FROM pragma_table_xinfo(:name) c ORDER BY c.cid";

bool is_true(const Field& field) { return field.view() == "t" || field.view() == "1"; }

}  // namespace

const TableColumn* Table::find(std::string_view column) const {
  const auto found = std::ranges::find(columns, column, &TableColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

std::string quoted_identifier(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

core::Task<Result<Table>> describe_table(Database& database, Dialect dialect, std::string name, std::uint32_t id) {
  Table table;
  const auto dot = name.find('.');
  if (dot != name.npos) table.name = quoted_identifier(name.substr(0, dot)) + '.';
  table.name += quoted_identifier(name.substr(dot == name.npos ? 0 : dot + 1));

  auto statement = co_await database.prepare(dialect == Dialect::postgres ? postgres_columns : sqlite_columns, id, {});
  if (!statement) co_return std::unexpected(std::move(statement.error()));
  // to_regclass() reads an identifier as SQL does; the pragma takes the bare name.
  const Argument argument{.text = dialect == Dialect::postgres ? std::string_view(table.name) : std::string_view(name)};
  auto cursor = co_await database.query(*statement, {&argument, 1}, {});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  for (bool last = false; !last;) {
    auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(std::move(block.error()));
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      table.columns.push_back({.name = std::string(row[0].view()),
                               .type = std::string(row[1].view()),
                               .collation = row[5].is_null() ? std::string{} : std::string(row[5].view()),
                               .default_value = row[4].is_null() ? std::string{} : std::string(row[4].view()),
                               .not_null = is_true(row[2]),
                               .generated = is_true(row[3])});
    }
  }
  if (table.columns.empty()) {
    co_return std::unexpected(Error{Failure::statement, {}, "there is no table \"" + name + "\"", 0});
  }
  co_return table;
}

}  // namespace sluice::sql
