#include "app/init/schema.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "base/ascii.h"
#include "sql/column_kind.h"
#include "sql/open.h"

namespace sluice::app::init {
namespace {

constexpr Duration patience = 30s;

using Row = std::vector<std::optional<std::string>>;
template <class T>
using Outcome = std::expected<T, std::string>;

// One row for each column, the tables' and the columns' in their order.
constexpr std::string_view postgres_columns = R"(
SELECT c.relname, quote_ident(c.relname), coalesce(obj_description(c.oid, 'pg_class'), ''),
       c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
         AND has_table_privilege(c.oid, 'DELETE'),
       a.attname, quote_ident(a.attname),
       (t.typcategory IN ('N', 'B', 'S', 'D', 'E', 'I', 'T') OR b.typname = 'uuid') AND b.typname NOT IN ('money', 'char'),
       t.typcategory = 'S' AND b.typname <> 'char',
       b.typname IN ('int2', 'int4', 'int8'),
       a.attgenerated <> '' OR a.attidentity = 'a',
       coalesce(array_position(k.indkey::int2[], a.attnum) + 1, 0),
       coalesce((SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = b.oid), ''),
       coalesce(col_description(c.oid, a.attnum), '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
LEFT JOIN LATERAL (
  SELECT i.indkey FROM pg_index i
  WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    AND i.indnatts = i.indnkeyatts
    AND NOT EXISTS (SELECT FROM pg_attribute x WHERE x.attrelid = c.oid AND x.attnum = ANY (i.indkey) AND NOT x.attnotnull)
  ORDER BY i.indisprimary DESC, i.indnatts, i.indexrelid LIMIT 1) k ON true
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND pg_table_is_visible(c.oid)
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND has_table_privilege(c.oid, 'SELECT')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname, a.attnum)";

// One row for each column of a foreign key.
constexpr std::string_view postgres_references = R"(
SELECT c.relname, r.oid, a.attname, p.relname, b.attname
FROM pg_constraint r
JOIN pg_class c ON c.oid = r.conrelid AND pg_table_is_visible(c.oid)
JOIN pg_class p ON p.oid = r.confrelid AND pg_table_is_visible(p.oid)
CROSS JOIN LATERAL unnest(r.conkey, r.confkey) WITH ORDINALITY AS k (child, parent, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.child
JOIN pg_attribute b ON b.attrelid = p.oid AND b.attnum = k.parent
WHERE r.contype = 'f' AND r.conparentid = 0
ORDER BY c.relname, r.conname, r.oid, k.place)";

constexpr std::string_view sqlite_tables = R"(
SELECT t.name, t.type = 'table', t.wr
FROM pragma_table_list AS t
WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\'
  AND (t.type IN ('table', 'view') OR t.type = 'virtual'
       AND (SELECT s.sql FROM sqlite_schema AS s WHERE s.name = t.name) NOT LIKE '%USING fts%')
ORDER BY t.name)";

// Asks for one table alone, since a view whose tables are gone is an error.
std::string sqlite_columns(std::string_view table) {
  std::string literal = "'";
  for (const char c : table) literal.append(c == '\'' ? 2 : 1, c);
  return "SELECT name, type, pk, hidden IN (2, 3) FROM pragma_table_xinfo(" + literal +
         "') WHERE hidden <> 1 ORDER BY cid";
}

constexpr std::string_view sqlite_references = R"(
SELECT t.name, f.id, f."from", f."table", f."to"
FROM pragma_table_list AS t JOIN pragma_foreign_key_list(t.name) AS f
WHERE t.schema = 'main' AND t.type = 'table'
ORDER BY t.name, f.id, f.seq)";

core::Task<Outcome<std::vector<Row>>> rows_of(sql::Database& database, std::string_view text, Instant deadline) {
  const auto statement = co_await database.prepare(text, {});
  if (!statement) co_return std::unexpected(describe(statement.error()));
  auto cursor = co_await database.query(*statement, {}, {.deadline = deadline});
  if (!cursor) co_return std::unexpected(describe(cursor.error()));
  std::vector<Row> rows;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(describe(block.error()));
    for (std::size_t i = 0; i < block->rows; ++i) {
      Row& row = rows.emplace_back();
      for (const sql::Field& field : block->row(i)) {
        row.push_back(field.is_null() ? std::nullopt : std::optional(std::string(field.view())));
      }
    }
    last = block->last;
  }
  co_return rows;
}

bool is_true(const std::optional<std::string>& value) { return value == "t" || value == "1"; }

// Words that SQLite reads as names only in quotes.
bool is_reserved_word(std::string_view name) {
  constexpr std::array<std::string_view, 59> words{
      "add",     "all",    "alter",      "and",    "as",          "autoincrement", "between",    "case",      "check",
      "collate", "commit", "constraint", "create", "default",     "deferrable",    "delete",     "distinct",  "drop",
      "else",    "escape", "except",     "exists", "foreign",     "from",          "group",      "having",    "in",
      "index",   "insert", "intersect",  "into",   "is",          "isnull",        "join",       "limit",     "not",
      "notnull", "null",   "on",         "or",     "order",       "primary",       "references", "returning", "select",
      "set",     "table",  "then",       "to",     "transaction", "union",         "unique",     "update",    "using",
      "values",  "when",   "where",      "with",   "nothing"};
  return std::ranges::find(words, name) != words.end();
}

std::string sqlite_name(const std::string& name) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const bool begins_well = !name.empty() && !(name.front() >= '0' && name.front() <= '9');
  if (begins_well && std::ranges::all_of(name, is_plain) && !is_reserved_word(name)) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

Table& table_of(Schema& schema, const std::string& name) {
  if (schema.tables.empty() || schema.tables.back().name != name) schema.tables.push_back({.name = name});
  return schema.tables.back();
}

void add_postgres_columns(Schema& schema, std::vector<Row> rows) {
  for (Row& row : rows) {
    Table& table = table_of(schema, *row[0]);
    table.sql = *row[1];
    table.comment = *row[2];
    table.is_writable = is_true(row[3]);
    table.columns.push_back({.name = *row[4],
                             .sql = *row[5],
                             .compares = is_true(row[6]),
                             .is_text = is_true(row[7]),
                             .is_integer = is_true(row[8]),
                             .is_generated = is_true(row[9]),
                             .key_place = static_cast<std::size_t>(std::stoul(*row[10])),
                             .labels = *row[11],
                             .comment = *row[12]});
  }
}

void add_sqlite_table(Schema& schema, const Row& row, const std::vector<Row>& columns) {
  using sql::ColumnKind;
  Table& table = schema.tables.emplace_back();
  table.name = *row[0];
  table.sql = sqlite_name(table.name);
  table.is_writable = is_true(row[1]);
  for (const Row& column : columns) {
    const ColumnKind kind = sql::sqlite_column_kind(column[1].value_or(""));
    table.columns.push_back({.name = *column[0],
                             .sql = sqlite_name(*column[0]),
                             .compares = kind != ColumnKind::bytes && kind != ColumnKind::json,
                             .is_text = kind == ColumnKind::text,
                             .is_integer = kind == ColumnKind::integer,
                             .is_generated = is_true(column[3]),
                             .key_place = static_cast<std::size_t>(std::stoul(*column[2]))});
  }
  const bool has_rowid = table.is_writable && !is_true(row[2]);
  const auto is_rowid = [](const Column& column) { return equal_ignoring_case(column.name, "rowid"); };
  if (!has_rowid || !table.key().empty() || std::ranges::any_of(table.columns, is_rowid)) return;
  table.columns.insert(table.columns.begin(), Column{.name = "rowid",
                                                     .sql = "rowid",
                                                     .compares = true,
                                                     .is_integer = true,
                                                     .is_generated = true,
                                                     .is_hidden = true,
                                                     .key_place = 1});
}

// The references that name the key of the other table, with their columns in its order.
void add_references(Schema& schema, const std::vector<Row>& rows) {
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end][0] == rows[begin][0] && rows[end][1] == rows[begin][1]) ++end;
    const auto parent = std::ranges::find_if(
        schema.tables, [&](const Table& table) { return equal_ignoring_case(table.name, *rows[begin][3]); });
    const auto child = std::ranges::find(schema.tables, *rows[begin][0], &Table::name);
    if (child == schema.tables.end()) continue;
    if (parent == schema.tables.end()) {
      child->is_writable = false;  // SQLite: a table that is not there
      continue;
    }
    const auto key = parent->key();
    Reference reference{.child = *rows[begin][0], .columns = {}, .parent = parent->name};
    for (std::size_t place = 0; place < key.size(); ++place) {
      for (std::size_t i = begin; i < end; ++i) {
        // SQLite: without a name, the columns are those of the key.
        const bool is_named = rows[i][4].has_value();
        const bool is_it = is_named ? equal_ignoring_case(*rows[i][4], key[place]->name) : i - begin == place;
        if (is_it) reference.columns.push_back(*rows[i][2]);
      }
    }
    if (key.empty() || reference.columns.size() != key.size() || end - begin != key.size()) continue;
    schema.references.push_back(std::move(reference));
  }
}

core::Task<Outcome<Schema>> read(sql::Database& database, bool is_sqlite, Instant deadline) {
  Schema schema;
  auto rows = co_await rows_of(database, is_sqlite ? sqlite_tables : postgres_columns, deadline);
  if (!rows) co_return std::unexpected(std::move(rows.error()));
  if (!is_sqlite) add_postgres_columns(schema, *std::move(rows));
  for (std::size_t i = 0; is_sqlite && i < rows->size(); ++i) {
    const auto columns = co_await rows_of(database, sqlite_columns(*(*rows)[i][0]), deadline);
    if (columns) {
      add_sqlite_table(schema, (*rows)[i], *columns);
    } else {
      schema.warnings.push_back(*(*rows)[i][0] + " is left out: " + columns.error());
    }
  }
  const auto references = co_await rows_of(database, is_sqlite ? sqlite_references : postgres_references, deadline);
  if (!references) co_return std::unexpected(references.error());
  add_references(schema, *references);
  co_return schema;
}

}  // namespace

std::vector<const Column*> Table::key() const {
  std::vector<const Column*> key;
  for (const Column& column : columns) {
    if (column.key_place != 0) key.push_back(&column);
  }
  std::ranges::sort(key, {}, &Column::key_place);
  return key;
}

const Table* Schema::find(const std::string& name) const {
  const auto found = std::ranges::find(tables, name, &Table::name);
  return found == tables.end() ? nullptr : &*found;
}

std::expected<Schema, std::string> read_schema(const sql::DatabaseOptions& options) {
  Loop loop;
  auto database = sql::open_database(options, *loop.reactor, loop.mailbox, loop.threads, nullptr);
  if (!database) return std::unexpected(describe(database.error()));
  return loop.run(read(**database, options.is_sqlite(), loop.reactor->now() + patience));
}

}  // namespace sluice::app::init
