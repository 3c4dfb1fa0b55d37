#include "rooms/tables.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/buffer.h"
#include "base/json.h"
#include "sql/set/table.h"

namespace sluice::rooms {
namespace {

bool is_postgres(const Published& published) { return published.dialect == sql::Dialect::postgres; }

// A temporary table of that name must not come before it.
std::string counters_name(const Published& published) {
  return (published.schema.empty() ? "" : sql::quoted_identifier(published.schema) + '.') + std::string(counters_table);
}

// chat.messages as "chat"."messages".
std::string quoted_table(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos) return sql::quoted_identifier(name);
  return sql::quoted_identifier(name.substr(0, dot)) + '.' + sql::quoted_identifier(name.substr(dot + 1));
}

std::string literal(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted.append(c == '\'' ? 2 : 1, c);
  return quoted + '\'';
}

// A name for what belongs to a table, which a schema holds once.
std::string own_name(std::string_view prefix, std::string_view table) {
  std::string name(prefix);
  for (const char c : table.substr(0, 40)) name.push_back(c == '.' ? '_' : c);
  return sql::quoted_identifier(name);
}

std::string key_of(const Published& published, std::string_view row) {
  std::string key;
  for (const std::string& column : published.columns) {
    const std::string value = fmt::format("{}.{}", row, sql::quoted_identifier(column));
    if (!key.empty()) key += is_postgres(published) ? " || chr(31) || " : " || char(31) || ";
    key += is_postgres(published) ? value + "::text" : "CAST(" + value + " AS TEXT)";
  }
  return key;
}

std::string columns_of(const Published& published) {
  std::string list;
  for (const std::string& column : published.columns) list += sql::quoted_identifier(column) + ", ";
  return list;
}

std::string number_body(const Published& published) {
  return fmt::format(R"(
BEGIN
  INSERT INTO {0} AS counter (source, room, seq)
  VALUES ({1}, {2}, 1)
  ON CONFLICT (source, room) DO UPDATE SET seq = counter.seq + 1
  RETURNING counter.seq INTO NEW.seq;
  RETURN NEW;
END
)",
                     counters_name(published), literal(published.table), key_of(published, "NEW"));
}

// A payload has less than 8,000 bytes.
std::string notify_body(const Published& published) {
  return fmt::format(R"(
BEGIN
  PERFORM pg_notify('{0}', CASE WHEN octet_length(key) < 7000
                           THEN 'c' || chr(31) || {1} || chr(31) || seq || chr(31) || key
                           ELSE 't' || chr(31) || {1} END)
  FROM (SELECT {2} AS key, max(one.seq) AS seq FROM added AS one GROUP BY 1) AS rooms;
  RETURN NULL;
END
)",
                     channel, literal(published.table), key_of(published, "one"));
}

std::string members_body() {
  return fmt::format(R"(
BEGIN
  PERFORM pg_notify('{}', 't' || chr(31) || TG_ARGV[0]);
  RETURN NULL;
END
)",
                     channel);
}

std::string function(std::string_view name, std::string_view body, std::string_view rights = "") {
  return fmt::format(
      "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql {}SET search_path = pg_catalog, pg_temp AS "
      "$sluice${}$sluice$",
      name, rights, body);
}

std::string sqlite_body(const Published& published) {
  return fmt::format(R"(BEGIN
  INSERT INTO {1} (source, room, seq, change)
  VALUES ({2}, {3}, 1, (SELECT coalesce(max(change), 0) + 1 FROM {1} WHERE source = {2}))
  ON CONFLICT (source, room) DO UPDATE SET seq = seq + 1, change = excluded.change;
  UPDATE {0} SET seq = (SELECT seq FROM {1} WHERE source = {2} AND room = {3}) WHERE rowid = NEW.rowid;
END)",
                     sql::quoted_identifier(published.table), counters_table, literal(published.table),
                     key_of(published, "NEW"));
}

std::string sqlite_trigger(const Published& published) {
  return fmt::format("CREATE TRIGGER {} AFTER INSERT ON {} {}", own_name("sluice_rooms_", published.table),
                     sql::quoted_identifier(published.table), sqlite_body(published));
}

// Whether an UPDATE takes a row to another room.
std::string is_moved(const Published& published) {
  std::string condition;
  for (const std::string& column : published.columns) {
    const std::string name = sql::quoted_identifier(column);
    condition += fmt::format("{}OLD.{} {} NEW.{}", condition.empty() ? "" : " OR ", name,
                             is_postgres(published) ? "IS DISTINCT FROM" : "IS NOT", name);
  }
  return condition;
}

std::string partition_of(const Published& published) {
  const std::string list = columns_of(published);
  return list.substr(0, list.size() - 2);
}

std::string sqlite_moved_trigger(const Published& published) {
  return fmt::format("CREATE TRIGGER {} AFTER UPDATE OF {} ON {} WHEN {} {}",
                     own_name("sluice_rooms_moved_", published.table), partition_of(published),
                     sql::quoted_identifier(published.table), is_moved(published), sqlite_body(published));
}

constexpr std::string_view moved_function = "sluice_rooms_moved";

std::string counters_table_statement(const Published& published) {
  const bool is_sqlite = !is_postgres(published);
  return fmt::format(
      R"(-- The counter of each room, which gives its rows their seq. The empty source has the epochs of all.
CREATE TABLE IF NOT EXISTS {} (
  source text NOT NULL,
  room text NOT NULL,
  seq {} NOT NULL,{}
  PRIMARY KEY (source, room)
){})",
      counters_name(published), is_sqlite ? "integer" : "bigint",
      is_sqlite ? "\n  change integer NOT NULL DEFAULT 0, -- numbers the changes of all rooms of a source" : "",
      is_sqlite ? " WITHOUT ROWID" : "");
}

std::string check_postgres(std::string_view table, std::string_view trigger, std::string_view body) {
  return fmt::format(
      "SELECT 1 AS found FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = to_regclass({}) AND "
      "t.tgname = {} AND t.tgenabled <> 'D' AND p.prosrc = {}",
      literal(quoted_table(table)), literal(trigger), literal(body));
}

}  // namespace

std::vector<std::string> statements_of(const Published& published, bool has_column) {
  const std::string table = quoted_table(published.table);
  const std::string source = literal(published.table);
  std::vector<std::string> all{counters_table_statement(published)};
  const std::string partition = partition_of(published);
  const std::string index = fmt::format("CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ({}seq)",
                                        own_name("sluice_rooms_", published.table), table, columns_of(published));
  // Rows that were there before get numbers in the order in which they lie in the table.
  const auto number_old = [&](std::string_view row_id) {
    return fmt::format(
        "UPDATE {0} AS old SET seq = given.n FROM (SELECT {1} AS id, row_number() OVER (PARTITION BY {2} ORDER BY {1}) "
        "AS n FROM {0}) AS given WHERE old.{1} = given.id AND NOT EXISTS (SELECT 1 FROM {0} WHERE seq IS NOT NULL)",
        table, row_id, partition);
  };
  const std::string counters = fmt::format(
      "INSERT INTO {} (source, room, seq) SELECT {}, {}, max(seq) FROM {} AS one WHERE seq IS NOT NULL GROUP BY 2 ON "
      "CONFLICT (source, room) DO NOTHING",
      counters_name(published), source, key_of(published, "one"), table);
  if (is_postgres(published)) {
    const std::string number = own_name("sluice_rooms_number_", published.table);
    const std::string notify = own_name("sluice_rooms_notify_", published.table);
    all.push_back(
        fmt::format("INSERT INTO {} (source, room, seq) VALUES ('', {}, (random() * 9e15)::bigint) "
                    "ON CONFLICT DO NOTHING",
                    counters_name(published), source));
    all.push_back(fmt::format("ALTER TABLE {} ADD COLUMN IF NOT EXISTS seq bigint", table));
    all.push_back(number_old("ctid"));
    all.push_back(counters);
    all.push_back(index);
    // A role that writes the table needs no right to write the counters.
    all.push_back(function(number, number_body(published), "SECURITY DEFINER "));
    all.push_back(function(notify, notify_body(published)));
    all.push_back(function(moved_function, members_body()));
    for (const std::string_view trigger :
         {"sluice_rooms_number", "sluice_rooms_notify", "sluice_rooms_renumber", "sluice_rooms_moved"}) {
      all.push_back(fmt::format("DROP TRIGGER IF EXISTS {} ON {}", trigger, table));
    }
    all.push_back(fmt::format(
        "CREATE TRIGGER sluice_rooms_number BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION {}()", table, number));
    all.push_back(
        fmt::format("CREATE TRIGGER sluice_rooms_notify AFTER INSERT ON {} REFERENCING NEW TABLE AS added "
                    "FOR EACH STATEMENT EXECUTE FUNCTION {}()",
                    table, notify));
    // A row that comes from another room gets a number of its new one.
    all.push_back(
        fmt::format("CREATE TRIGGER sluice_rooms_renumber BEFORE UPDATE OF {} ON {} FOR EACH ROW WHEN ({}) "
                    "EXECUTE FUNCTION {}()",
                    partition, table, is_moved(published), number));
    all.push_back(
        fmt::format("CREATE TRIGGER sluice_rooms_moved AFTER UPDATE OF {} ON {} FOR EACH ROW WHEN ({}) "
                    "EXECUTE FUNCTION {}({})",
                    partition, table, is_moved(published), moved_function, source));
    return all;
  }
  all.push_back(
      fmt::format("INSERT INTO {} (source, room, seq) VALUES ('', {}, abs(random() % 9000000000000000)) "
                  "ON CONFLICT DO NOTHING",
                  counters_name(published), source));
  all.push_back(fmt::format("CREATE INDEX IF NOT EXISTS sluice_rooms_change ON {} (source, change)", counters_table));
  if (!has_column) all.push_back(fmt::format("ALTER TABLE {} ADD COLUMN seq integer", table));
  all.push_back(number_old("rowid"));
  all.push_back(counters);
  all.push_back(index);
  all.push_back(fmt::format("DROP TRIGGER IF EXISTS {}", own_name("sluice_rooms_", published.table)));
  all.push_back(sqlite_trigger(published));
  all.push_back(fmt::format("DROP TRIGGER IF EXISTS {}", own_name("sluice_rooms_moved_", published.table)));
  all.push_back(sqlite_moved_trigger(published));
  return all;
}

std::vector<std::string> statements_of_members(std::string_view table) {
  return {function("sluice_rooms_members", members_body()),
          fmt::format("DROP TRIGGER IF EXISTS sluice_rooms_members ON {}", quoted_table(table)),
          fmt::format("CREATE TRIGGER sluice_rooms_members AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} FOR EACH "
                      "STATEMENT EXECUTE FUNCTION sluice_rooms_members({})",
                      quoted_table(table), literal(table))};
}

std::string check_of(const Published& published) {
  if (!is_postgres(published)) {
    return fmt::format(
        "SELECT 1 AS found FROM (SELECT count(*) AS n FROM sqlite_master WHERE type = 'trigger' AND sql IN ({}, {})) "
        "WHERE n = 2",
        literal(sqlite_trigger(published)), literal(sqlite_moved_trigger(published)));
  }
  return fmt::format("SELECT 1 AS found WHERE EXISTS ({}) AND EXISTS ({}) AND EXISTS ({}) AND EXISTS ({})",
                     check_postgres(published.table, "sluice_rooms_number", number_body(published)),
                     check_postgres(published.table, "sluice_rooms_renumber", number_body(published)),
                     check_postgres(published.table, "sluice_rooms_moved", members_body()),
                     check_postgres(published.table, "sluice_rooms_notify", notify_body(published)));
}

std::string check_of_members(std::string_view table) {
  return check_postgres(table, "sluice_rooms_members", members_body());
}

std::string counters_of(const Published& published) {
  return fmt::format(
      "SELECT room, seq FROM {0} WHERE source = {1} AND room {2} UNION ALL SELECT NULL, seq FROM {0} WHERE source = '' "
      "AND room = {1}",
      counters_name(published), literal(published.table),
      is_postgres(published) ? "= ANY(:rooms)" : "IN (SELECT value FROM json_each(:rooms))");
}

std::string newest_of(const Published& published) {
  return fmt::format(
      "SELECT (SELECT seq FROM {0} WHERE source = '' AND room = {1}) AS epoch, (SELECT max(change) FROM {0} WHERE "
      "source = {1}) AS newest",
      counters_table, literal(published.table));
}

std::string raised_of(const Published& published) {
  return fmt::format("SELECT room, seq, change FROM {} WHERE source = {} AND change > :since ORDER BY change LIMIT {}",
                     counters_table, literal(published.table), raised_rooms);
}

std::string list_of(const std::vector<std::string>& keys, sql::Dialect dialect) {
  const bool is_postgres = dialect == sql::Dialect::postgres;
  Buffer list;
  list.push_back(is_postgres ? '{' : '[');
  for (const std::string& key : keys) {
    if (list.size() > 1) list.push_back(',');
    list.push_back('"');
    if (is_postgres) {
      for (const char c : key) {
        if (c == '"' || c == '\\') list.push_back('\\');
        list.push_back(c);
      }
    } else {
      append_json_escaped(list, key);
    }
    list.push_back('"');
  }
  list.push_back(is_postgres ? '}' : ']');
  return std::string(list.view());
}

std::optional<Notice> parse_notice(std::string_view payload) {
  const auto next = [&] {
    const std::size_t end = std::min(payload.find(separator), payload.size());
    const std::string_view part = payload.substr(0, end);
    payload.remove_prefix(std::min(end + 1, payload.size()));
    return part;
  };
  const std::string_view kind = next();
  const std::string_view name = next();
  if (kind == "t") return Notice{.kind = Notice::Kind::table, .name = name, .key = {}};
  if (kind == "b") return Notice{.kind = Notice::Kind::beat, .name = name, .key = {}};
  if (kind != "c") return std::nullopt;
  Notice notice{.kind = Notice::Kind::counter, .name = name, .key = {}};
  const std::string_view offset = next();
  const auto [end, error] = std::from_chars(offset.data(), offset.data() + offset.size(), notice.offset);
  if (error != std::errc() || end != offset.data() + offset.size()) return std::nullopt;
  notice.key = payload;
  return notice;
}

std::string beat_of(std::string_view name) { return std::string("b") + separator + std::string(name); }

}  // namespace sluice::rooms
