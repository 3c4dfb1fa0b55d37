#include "api/table_sql.h"

#include <algorithm>

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
  Writer(const MethodOptions& options, const http::Pattern& pattern, Dialect dialect, const sql::Table& table)
      : options_(options), pattern_(pattern), dialect_(dialect), table_(table) {}

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
  // `keeps`: columns that the body does not contain keep their values.
  [[nodiscard]] std::string update(bool keeps) const {
    std::string assignments;
    for (const auto& column : options_.columns) {
      if (column.value.key) continue;
      const std::string name = quoted_identifier(column.name.value);
      const sql::TableColumn& there = *table_.find(column.name.value);
      const std::string& otherwise = there.default_value;
      std::string assigned = value(column);
      if (keeps && is_of_body(column) && !column.value.required.value) {
        assigned = if_present(column, name);
      } else if (may_be_missing(column) && !otherwise.empty()) {
        assigned = if_present(column, "(" + otherwise + ")");
      }
      if (sql::is_json(there.kind)) {
        assigned = "CASE WHEN " + sql::shows_another(dialect_, there, name, assigned) + " THEN " + assigned + " ELSE " +
                   name + " END";
      }
      assignments += (assignments.empty() ? "" : ", ") + name + " = " + assigned;
    }
    if (assignments.empty()) return {};
    return "UPDATE" + table_.or_abort + " " + table_.name + " SET " + assignments + where() + returning();
  }
  [[nodiscard]] std::string remove() const { return "DELETE FROM " + table_.name + where() + returning(); }

 private:
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
};

}  // namespace

std::string presence_parameter(std::string_view column) { return "has_" + sql::shared_parameter(column); }

std::expected<TableSql, std::string> make_table_sql(http::Method method, const MethodOptions& options,
                                                    const http::Pattern& pattern, sql::Dialect dialect,
                                                    const sql::Table& table) {
  const bool has_key = std::ranges::any_of(options.columns, [](const auto& column) { return column.value.key; });
  const Writer writer(options, pattern, dialect, table);
  const std::string_view needs_key = "a key is needed, which says what row is meant: columns.NAME = { key = true }";
  switch (method) {
    case http::Method::post:
      return TableSql{.sql = writer.insert(), .update_first = {}};
    case http::Method::patch: {
      if (!has_key) return std::unexpected(std::string(needs_key));
      std::string update = writer.update(true);
      if (update.empty()) return std::unexpected("there is no column to change besides the keys");
      return TableSql{.sql = std::move(update), .update_first = {}};
    }
    case http::Method::put: {
      if (!has_key) return std::unexpected(std::string(needs_key));
      std::string update = writer.update(false);
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
    }
    return source;
  }
  return std::nullopt;
}

}  // namespace sluice::api
