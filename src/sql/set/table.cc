#include "sql/set/table.h"

#include <algorithm>
#include <ranges>

#include "sql/json_literal.h"
#include "sql/postgres/types.h"

namespace sluice::sql {
namespace {

// Both queries return: name, type, not null, generated, default, collation, equality, row id, column number, the column
// numbers of each unique index ("1 2;3"), whether the table may have indices, strict, view, `deletes_more`,
// `acts_alone`, `or_abort`, `updates_trigger`, `is_partitioned`.
constexpr std::string_view postgres_columns =
    "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
    " a.attgenerated <> '' OR a.attidentity = 'a',"
    " CASE WHEN a.attgenerated <> '' THEN NULL WHEN a.attidentity <> ''"
    " THEN 'nextval(' || quote_literal(pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)) || '::regclass)'"
    " ELSE pg_get_expr(d.adbin, d.adrelid) END,"
    " (SELECT quote_ident(n.nspname) || '.' || quote_ident(k.collname) FROM pg_collation k JOIN pg_namespace n"
    "  ON n.oid = k.collnamespace WHERE k.oid = a.attcollation AND k.collname <> 'default'),"
    // bool, bytea, integers, oid, date, time, timestamps, numeric, uuid; then floating-point types and their arrays.
    " CASE WHEN b.oid IN (16, 17, 20, 21, 23, 26, 1082, 1083, 1114, 1184, 1700, 2950) THEN 'exact'"
    " WHEN b.oid IN (700, 701, 1021, 1022) THEN 'both' ELSE 'text' END,"
    " false, a.attnum,"
    " (SELECT string_agg(array_to_string((i.indkey::int2[])[0:(i.indnkeyatts - 1)], ' '), ';') FROM pg_index i"
    "  WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL"
    "  AND i.indexprs IS NULL"
    // A unique index with another collation does not make values unique by the column's own collation.
    "  AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[], i.indcollation::oid[]) AS u (number, coll)"
    "   JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = u.number AND k.attcollation <> u.coll"
    "   JOIN pg_collation o ON o.oid = k.attcollation AND NOT o.collisdeterministic)),"
    " c.relkind IN ('r', 'p'), false, false,"
    " (WITH RECURSIVE taken AS (SELECT to_regclass(:name)::oid AS rel, false AS again"
    "  UNION SELECT k.conrelid, k.conrelid = to_regclass(:name)"
    "  FROM taken JOIN pg_constraint k ON k.confrelid = taken.rel AND k.confdeltype = 'c')"
    "  SELECT c.relkind = 'v' OR bool_or(again) OR EXISTS (SELECT FROM taken JOIN pg_trigger g ON g.tgrelid = taken.rel"
    "  WHERE NOT g.tgisinternal AND g.tgtype & 8 <> 0) FROM taken),"  // 8: DELETE
    // 66: BEFORE, INSTEAD OF; 1: FOR EACH ROW
    " c.relhasrules OR EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal"
    "  AND (g.tgtype & 66 <> 0 OR g.tgtype & 1 = 0)), NULL,"
    " EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgtype & 16 <> 0),"
    " c.relkind = 'p'"  // 16: UPDATE
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " CROSS JOIN LATERAL (WITH RECURSIVE base AS (SELECT y.oid, y.typtype, y.typbasetype"
    "  FROM pg_type y WHERE y.oid = a.atttypid UNION ALL SELECT y.oid, y.typtype, y.typbasetype"
    "  FROM base JOIN pg_type y ON y.oid = base.typbasetype WHERE base.typtype = 'd')"
    "  SELECT base.oid FROM base WHERE base.typtype <> 'd') b"
    " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE a.attrelid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
constexpr std::string_view sqlite_columns =
    "SELECT c.name, c.type, c.\"notnull\", c.hidden <> 0, c.dflt_value, nullif(sluice_collation(:name, c.name),"
    " 'BINARY'), 'exact', c.pk = 1 AND upper(c.type) = 'INTEGER' AND"
    " (SELECT max(p.pk) FROM pragma_table_xinfo(:name) p) = 1, c.cid,"
    // An index with another collation than the column's does not help, except for columns that compare as bytes.
    " (SELECT group_concat(u.cids, ';') FROM (SELECT group_concat(k.cid, ' ') AS cids"
    "  FROM pragma_index_list(:name) i, pragma_index_xinfo(i.name) k WHERE i.\"unique\" AND NOT i.partial AND k.key"
    "  GROUP BY i.name HAVING min(k.cid >= 0 AND coalesce(sluice_collation(:name, k.name) IN ('BINARY', k.coll), 0)))"
    "  AS u), coalesce((SELECT l.type = 'table' FROM pragma_table_list(:name) l), 0),"
    " coalesce((SELECT l.strict FROM pragma_table_list(:name) l), 0),"
    " coalesce((SELECT l.type = 'view' FROM pragma_table_list(:name) l), 0),"
    " (WITH RECURSIVE taken(rel, again) AS (SELECT lower(:name), 0"
    "  UNION SELECT lower(m.name), lower(m.name) = lower(:name)"
    "  FROM taken, sqlite_schema m, pragma_foreign_key_list(m.name) k"
    "  WHERE m.type = 'table' AND lower(k.\"table\") = taken.rel AND k.on_delete = 'CASCADE')"
    "  SELECT max(again) OR EXISTS (SELECT 1 FROM taken, sqlite_schema g WHERE g.type = 'trigger'"
    "  AND lower(g.tbl_name) = taken.rel AND g.sql LIKE '%delete%') FROM taken), 1,"
    " (SELECT ' OR ABORT' FROM sqlite_schema m WHERE m.type = 'table' AND lower(m.name) = lower(:name)"
    "  AND m.sql LIKE '%on%conflict%'),"
    " EXISTS (SELECT 1 FROM sqlite_schema g WHERE g.type = 'trigger' AND lower(g.tbl_name) = lower(:name)"
    "  AND g.sql LIKE '%update%'), 0"
    " FROM pragma_table_xinfo(:name) c ORDER BY c.cid";

bool is_true(const Field& field) { return field.view() == "t" || field.view() == "1"; }

std::string text_of(const Field& field) { return field.is_null() ? std::string{} : std::string(field.view()); }

Equality equality_of(std::string_view text) {
  if (text == "exact") return Equality::exact;
  return text == "both" ? Equality::both : Equality::text;
}

// Sets each column's ColumnKind. PostgreSQL reports the types of a statement's columns, and these are never domains.
core::Task<Result<void>> find_kinds(Database& database, Dialect dialect, Table& table) {
  if (dialect == Dialect::sqlite) {
    const auto strictness = table.strict ? Strictness::strict : Strictness::loose;
    for (TableColumn& column : table.columns) column.kind = sqlite_column_kind(column.type, strictness);
    co_return Result<void>{};
  }
  std::string names;
  for (const TableColumn& column : table.columns) names += (names.empty() ? "" : ", ") + quoted_identifier(column.name);
  const auto statement = co_await database.prepare("SELECT " + names + " FROM " + table.name, {});
  if (!statement) co_return std::unexpected(statement.error());
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto& type = statement->columns[i].type;
    table.columns[i].kind = postgres::column_kind(type);
    if (has_literal(*type)) table.columns[i].nested = type;
  }
  table.type_check = statement->type_check;
  co_return Result<void>{};
}

// PostgreSQL: translate() replaces each line end by a blank, which is equivalent in JSON.
std::string on_one_line(Dialect dialect, const std::string& json) {
  return dialect == Dialect::postgres ? "translate(" + json + "::text, chr(10) || chr(13), '  ') COLLATE \"C\""
                                      : "replace(replace(" + json + ", char(10), ' '), char(13), ' ')";
}

std::string shows_another_json(Dialect dialect, const std::string& there, const std::string& value) {
  const std::string differs = on_one_line(dialect, there) +
                              (dialect == Dialect::postgres ? " IS DISTINCT FROM " : " IS NOT ") +
                              on_one_line(dialect, value);
  if (dialect == Dialect::postgres) {
    return "CASE WHEN " + value + " IS NULL THEN btrim(" + there + "::text, E' \\t\\r\\n') <> 'null' ELSE " + differs +
           " END";
  }
  // Text that is not valid JSON is shown as a JSON string.
  const std::string exactly = there + " IS NOT " + value + " COLLATE BINARY";
  return "CASE WHEN " + value + " IS NULL THEN trim(" + there +
         ", char(9, 10, 13, 32)) <> 'null' COLLATE BINARY WHEN typeof(" + there + ") <> 'text' OR typeof(" + value +
         ") <> 'text' THEN " + exactly + " WHEN json_valid(" + there + ") THEN " + differs + " WHEN json_valid(" +
         value + ") THEN json_extract(" + value + ", '$') IS NOT " + there + " COLLATE BINARY ELSE " + exactly + " END";
}

}  // namespace

std::string shows_another(Dialect dialect, const TableColumn& column, const std::string& there,
                          const std::string& value) {
  if (is_json(column.kind)) return shows_another_json(dialect, there, value);
  // Values that are equal only by a type's comparison or a collation still look different.
  if (dialect == Dialect::sqlite) return there + " IS NOT " + value + " COLLATE BINARY";
  const std::string by_value = there + " IS DISTINCT FROM " + value;
  if (column.equality == Equality::exact) return by_value;
  const std::string by_text = there + "::text COLLATE \"C\" IS DISTINCT FROM " + value + "::text COLLATE \"C\"";
  return column.equality == Equality::text ? by_text : "(" + by_value + " OR " + by_text + ")";
}

const TableColumn* Table::find(std::string_view column) const {
  const auto found = std::ranges::find(columns, column, &TableColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

bool Table::is_unique(const std::vector<std::string>& by) const {
  return std::ranges::any_of(unique, [&](const std::vector<std::string>& index) {
    return !index.empty() &&
           std::ranges::all_of(index, [&](const std::string& name) { return std::ranges::find(by, name) != by.end(); });
  });
}

std::string quoted_identifier(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

core::Task<Result<Table>> describe_table(Database& database, Dialect dialect, std::string name) {
  Table table;
  const auto dot = name.find('.');
  if (dot != name.npos) table.name = quoted_identifier(name.substr(0, dot)) + '.';
  table.name += quoted_identifier(name.substr(dot == name.npos ? 0 : dot + 1));

  auto statement = co_await database.prepare(dialect == Dialect::postgres ? postgres_columns : sqlite_columns, {});
  if (!statement) co_return std::unexpected(std::move(statement.error()));
  // to_regclass() parses an identifier as SQL does; the pragma takes the unquoted name.
  const Argument argument{.text = dialect == Dialect::postgres ? std::string_view(table.name) : std::string_view(name)};
  auto cursor = co_await database.query(*statement, {&argument, 1}, {});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  std::vector<std::string> numbers;  // column numbers
  std::string indices;
  for (bool last = false; !last;) {
    auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(std::move(block.error()));
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      table.columns.push_back({.name = std::string(row[0].view()),
                               .type = std::string(row[1].view()),
                               .collation = text_of(row[5]),
                               .equality = equality_of(row[6].view()),
                               .default_value = text_of(row[4]),
                               .not_null = is_true(row[2]),
                               .generated = is_true(row[3]),
                               .row_id = is_true(row[7])});
      numbers.emplace_back(row[8].view());
      if (table.columns.back().row_id) table.unique.push_back({table.columns.back().name});
      indices = text_of(row[9]);
      table.has_indices = is_true(row[10]);
      table.strict = is_true(row[11]);
      table.is_view = is_true(row[12]);
      table.deletes_more = is_true(row[13]);
      table.acts_alone = is_true(row[14]);
      table.or_abort = text_of(row[15]);
      table.updates_trigger = is_true(row[16]);
      table.is_partitioned = is_true(row[17]);
    }
  }
  for (const auto index : std::views::split(indices, ';')) {
    std::vector<std::string>& columns = table.unique.emplace_back();
    for (const auto number : std::views::split(index, ' ')) {
      const auto at = std::ranges::find(numbers, std::string_view(number.begin(), number.end()));
      if (at != numbers.end()) columns.push_back(table.columns[static_cast<std::size_t>(at - numbers.begin())].name);
    }
  }
  if (table.columns.empty()) {
    co_return std::unexpected(Error{Failure::statement, {}, "there is no table \"" + name + "\"", 0});
  }
  if (auto known = co_await find_kinds(database, dialect, table); !known) {
    co_return std::unexpected(std::move(known.error()));
  }
  co_return table;
}

}  // namespace sluice::sql
