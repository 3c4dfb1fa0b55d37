#include "api/table_sql.h"

#include <algorithm>

#include "base/ascii.h"
#include "sql/set/set.h"

namespace sluice::api {
namespace {

using sql::Dialect;
using sql::quoted_identifier;

// A type for casts that do not truncate, unlike casts to varchar(3), char(3) and bit(3). The column then refuses longer
// values.
std::string uncut(const std::string& type) {
  const auto open = type.find('(');
  if (open == type.npos || !(type.starts_with("character") || type.starts_with("bit"))) return type;
  const std::string name = type.substr(0, open);
  const std::string of_any_length = name == "character" ? "bpchar" : name == "bit" ? "\"bit\"" : name;
  return of_any_length + type.substr(type.find(')', open) + 1);
}

class Writer {
 public:
  Writer(const MethodOptions& options, const http::Pattern& pattern, Dialect dialect, const sql::Table& table,
         std::string_view version)
      : options_(options), pattern_(pattern), dialect_(dialect), table_(table), version_(version) {}

  [[nodiscard]] std::string insert() const {
    std::string names;
    std::string values;
    for (const auto& column : options_.columns) {
      names += (names.empty() ? "" : ", ") + quoted_identifier(column.name.value);
      const std::string& otherwise = table_.find(column.name.value)->default_value;
      values += values.empty() ? "" : ", ";
      values +=
          may_be_missing(column) && !otherwise.empty() ? if_present(column, "(" + otherwise + ")") : value(column);
    }
    return "INSERT" + table_.or_abort + " INTO " + table_.name + " (" + names + ") VALUES (" + values + ")" +
           returning();
  }
  [[nodiscard]] std::string replace() const {
    std::string assignments;
    for (const auto& column : options_.columns) {
      if (is_set(column)) append(assignments, assignment(column, true));
    }
    if (assignments.empty()) return {};
    append(assignments, raised());
    return update_of(assignments);
  }
  [[nodiscard]] PatchSql patch() const {
    PatchSql patch;
    for (const auto& column : options_.columns) {
      if (!is_set(column)) continue;
      const bool optional = is_of_body(column) && !column.value.required.value;
      patch.assignments.push_back({column.name.value, assignment(column, false), optional});
    }
    patch.head = "UPDATE" + table_.or_abort + " " + table_.name + " SET " + raised();
    if (!version_.empty()) patch.head += ", ";
    patch.tail = where() + returning();
    for (const auto& column : options_.columns) {
      if (is_set(column) && sql::is_json(table_.find(column.name.value)->kind)) {
        patch.json.push_back(column.name.value);
        append(patch.current, "CAST(" + quoted_identifier(column.name.value) + " AS text)");
      }
    }
    if (!patch.json.empty()) {
      const std::string_view lock = dialect_ == Dialect::postgres ? " FOR UPDATE" : "";
      patch.current = "SELECT " + patch.current + " FROM " + table_.name + where() + std::string(lock);
    }
    patch.read = "SELECT " + (options_.returning.value.empty() ? "1" : options_.returning.value) + " FROM " +
                 table_.name + where();
    return patch;
  }
  [[nodiscard]] std::string remove() const { return "DELETE FROM " + table_.name + where() + returning(); }

 private:
  static void append(std::string& assignments, const std::string& one) {
    if (one.empty()) return;
    if (!assignments.empty()) assignments += ", ";
    assignments += one;
  }
  [[nodiscard]] bool is_set(const Named<ColumnOptions>& column) const {
    return !column.value.key && column.name.value != version_;
  }
  // `fills`: a column that the body does not contain gets the table's default.
  [[nodiscard]] std::string assignment(const Named<ColumnOptions>& column, bool fills) const {
    const std::string name = quoted_identifier(column.name.value);
    const sql::TableColumn& there = *table_.find(column.name.value);
    const std::string& otherwise = there.default_value;
    std::string assigned = fills && may_be_missing(column) && !otherwise.empty()
                               ? if_present(column, "(" + otherwise + ")")
                               : value(column);
    if (sql::is_json(there.kind)) {
      assigned = "CASE WHEN " + sql::shows_another(dialect_, there, name, assigned) + " THEN " + assigned + " ELSE " +
                 name + " END";
    }
    return name + " = " + assigned;
  }
  [[nodiscard]] std::string raised() const {
    if (version_.empty()) return {};
    return quoted_identifier(version_) + " = " + next_version(dialect_, *table_.find(version_));
  }
  [[nodiscard]] std::string update_of(const std::string& assignments) const {
    return "UPDATE" + table_.or_abort + " " + table_.name + " SET " + assignments + where() + returning();
  }
  [[nodiscard]] bool is_of_body(const Named<ColumnOptions>& column) const {
    const From from = column_source(column, pattern_).from;
    return from == From::body || from == From::upload;
  }
  [[nodiscard]] bool may_be_missing(const Named<ColumnOptions>& column) const {
    return is_of_body(column) && !column.value.required.value && !column.value.default_value && !column.value.key;
  }
  [[nodiscard]] std::string typed(const std::string& parameter, const std::string& type) const {
    return dialect_ == Dialect::postgres ? "CAST(:" + parameter + " AS " + type + ")" : ":" + parameter;
  }
  [[nodiscard]] std::string value(const Named<ColumnOptions>& column) const {
    return typed(sql::shared_parameter(column.name.value), uncut(table_.find(column.name.value)->type));
  }
  [[nodiscard]] std::string if_present(const Named<ColumnOptions>& column, const std::string& otherwise) const {
    return "CASE WHEN " + typed(presence_parameter(column.name.value), "boolean") + " THEN " + value(column) +
           " ELSE " + otherwise + " END";
  }
  [[nodiscard]] std::string where() const {
    std::string sql;
    for (const auto& column : options_.columns) {
      if (!column.value.key) continue;
      sql += (sql.empty() ? " WHERE " : " AND ") + quoted_identifier(column.name.value) + " = " + value(column);
    }
    return sql;
  }
  [[nodiscard]] std::string returning() const {
    return options_.returning.value.empty() ? "" : " RETURNING " + options_.returning.value;
  }

  const MethodOptions& options_;
  const http::Pattern& pattern_;
  Dialect dialect_;
  const sql::Table& table_;
  std::string_view version_;
};

// PostgreSQL: the interval between two values of a time with this type, by its precision: timestamp(3) with time zone.
std::string shortest_interval(std::string_view type) {
  const auto open = type.find('(');
  const int digits = open == type.npos ? 6 : type[open + 1] - '0';
  return digits == 0 ? "1 second" : "0." + std::string(static_cast<std::size_t>(digits - 1), '0') + "1 seconds";
}

}  // namespace

std::string presence_parameter(std::string_view column) { return "has_" + sql::shared_parameter(column); }

std::string PatchSql::update(std::string_view chosen) const {
  std::string text = head;
  for (std::size_t i = 0, count = 0; i < assignments.size(); ++i) {
    if (chosen[i] == '1') text += (count++ == 0 ? "" : ", ") + assignments[i].sql;
  }
  return text + tail;
}

std::string next_version(sql::Dialect dialect, const sql::TableColumn& column) {
  const std::string name = quoted_identifier(column.name);
  const std::string count = "coalesce(" + name + ", 0) + 1";
  if (dialect == Dialect::postgres) {
    const std::string& type = column.type;
    if (type == "smallint" || type == "integer" || type == "bigint" || type.starts_with("numeric")) return count;
    if (!type.starts_with("timestamp")) return {};
    return "greatest(CAST(clock_timestamp() AS " + type + "), " + name + " + interval '" + shortest_interval(type) +
           "')";
  }
  if (column.kind == sql::ColumnKind::integer || column.kind == sql::ColumnKind::numeric) return count;
  const std::string type = to_lower(column.type);
  if (column.kind != sql::ColumnKind::value || !(type.starts_with("timestamp") || type.starts_with("datetime"))) {
    return {};
  }
  const std::string now = "strftime('%Y-%m-%d %H:%M:%f', 'now')";
  return "CASE typeof(" + name + ") WHEN 'integer' THEN max(" + name + " + 1, unixepoch()) ELSE coalesce(max(" + now +
         ", strftime('%Y-%m-%d %H:%M:%f', " + name + ", '+0.001 seconds')), " + now + ") END";
}

std::expected<TableSql, std::string> make_table_sql(http::Method method, const MethodOptions& options,
                                                    const http::Pattern& pattern, sql::Dialect dialect,
                                                    const sql::Table& table, std::string_view version) {
  const bool has_key = std::ranges::any_of(options.columns, [](const auto& column) { return column.value.key; });
  const Writer writer(options, pattern, dialect, table, version);
  const std::string_view needs_key = "a key is needed, which says what row is meant: columns.NAME = { key = true }";
  switch (method) {
    case http::Method::post:
      return TableSql{.sql = writer.insert(), .update_first = {}};
    case http::Method::patch: {
      if (!has_key) return std::unexpected(std::string(needs_key));
      PatchSql patch = writer.patch();
      if (patch.assignments.empty()) return std::unexpected("there is no column to change besides the keys");
      std::string all = patch.update(std::string(patch.assignments.size(), '1'));
      return TableSql{.sql = std::move(all), .update_first = {}, .patch = std::move(patch)};
    }
    case http::Method::put: {
      if (!has_key) return std::unexpected(std::string(needs_key));
      std::string update = writer.replace();
      if (update.empty()) return std::unexpected("there is no column to change besides the keys");
      return TableSql{.sql = writer.insert(), .update_first = std::move(update)};
    }
    default:
      if (!has_key) return std::unexpected(std::string(needs_key));
      return TableSql{.sql = writer.remove(), .update_first = {}};
  }
}

std::optional<Source> table_source(std::string_view parameter, const MethodOptions& options,
                                   const http::Pattern& pattern) {
  for (const auto& column : options.columns) {
    const bool asks_presence = parameter == presence_parameter(column.name.value);
    if (!asks_presence && parameter != sql::shared_parameter(column.name.value)) continue;
    Source source = column_source(column, pattern);
    if (asks_presence) {  // the parameter is a boolean, so the rules for the value do not apply
      source.asks_presence = true;
      source.checked = source.required = source.trim = false;
      source.default_text.reset();
      source.allowed.reset();
      source.password.reset();
    }
    return source;
  }
  return std::nullopt;
}

}  // namespace sluice::api
