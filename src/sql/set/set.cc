#include "sql/set/set.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sql/parameters.h"

namespace sluice::sql {
namespace {

constexpr std::string_view blanks = " \t\r\n\f\v;";

std::unexpected<Error> refuse(std::string message) {
  return std::unexpected(Error{Failure::statement, {}, std::move(message), 0});
}

// Types that PostgreSQL cannot compare, or for which different texts are equal: their texts are compared.
bool is_compared_by_text(std::string_view type) {
  constexpr std::array<std::string_view, 10> types{"json", "xml",  "point",   "box",    "path",
                                                   "line", "lseg", "polygon", "circle", "citext"};
  return std::ranges::find(types, type) != types.end();
}

class Builder {
 public:
  Builder(Dialect dialect, const Table& table, const SetOptions& options)
      : dialect_(dialect), table_(table), options_(options) {}

  // `stage`: how the statements name the temporary table.
  [[nodiscard]] std::string stage() const { return postgres() ? "pg_temp.sluice_stage" : "temp.sluice_stage"; }
  // A query without rows and with the temporary table's columns, for statements that are looked at before it is there.
  [[nodiscard]] std::string no_rows() const {
    std::string sql = "(SELECT ";
    for (const SetColumn& column : options_.columns) {
      if (column.shared) continue;
      sql += quoted_identifier(column.name) + ", ";
      if (column.optional) sql += (postgres() ? "true" : "1") + std::string(" AS ") + flag_of(column) + ", ";
    }
    sql += postgres() ? "0::bigint" : "0";
    sql += " AS sluice_line, ";
    sql += postgres() ? "0::bigint" : "0";
    return sql + " AS sluice_row FROM " + table_.name + " WHERE 1 = 0)";
  }

  [[nodiscard]] std::string create() const {
    std::string sql = "CREATE TEMPORARY TABLE sluice_stage (";
    for (const SetColumn& column : options_.columns) {
      if (column.shared) continue;
      const TableColumn& there = *table_.find(column.name);
      sql += quoted_identifier(column.name) + " " + there.type;
      if (!there.collation.empty()) sql += " COLLATE " + quoted_identifier(there.collation);
      sql += ", ";
      if (column.optional) sql += flag_of(column) + " boolean, ";
    }
    return sql + "sluice_line bigint, sluice_row bigint)";
  }
  [[nodiscard]] std::string load() const {
    if (postgres()) return "COPY pg_temp.sluice_stage FROM STDIN";
    std::size_t count = 2;
    for (const SetColumn& column : options_.columns) count += column.shared ? 0 : column.optional ? 2 : 1;
    std::string sql = "INSERT INTO temp.sluice_stage VALUES (";
    for (std::size_t i = 0; i < count; ++i) sql += i == 0 ? "?" : ", ?";
    return sql + ")";
  }
  [[nodiscard]] std::string index() const {
    const std::string keys = staged_keys("");
    if (postgres() || keys.empty()) return {};
    return "CREATE INDEX temp.sluice_stage_key ON sluice_stage (" + keys + ")";
  }

  [[nodiscard]] std::string distinct(std::string_view from) const {
    const std::string keys = staged_keys("s.");
    if (keys.empty()) return "SELECT min(1) FROM " + std::string(from) + " AS s";
    return "SELECT count(*) FROM (SELECT 1 FROM " + std::string(from) + " AS s GROUP BY " + keys + ") AS g";
  }
  [[nodiscard]] std::string duplicates(std::string_view from) const {
    const std::string keys = staged_keys("s.");
    const std::string same = keys.empty() ? "" : "PARTITION BY " + keys;
    return "SELECT d.sluice_line, d.sluice_row, d.sluice_first FROM (SELECT s.sluice_line, s.sluice_row,"
           " row_number() OVER (" + same + " ORDER BY s.sluice_row) AS sluice_count,"
           " min(s.sluice_row) OVER (" + same + ") AS sluice_first FROM " + std::string(from) +
           " AS s) AS d WHERE d.sluice_count > 1 ORDER BY d.sluice_row LIMIT 100";
  }
  [[nodiscard]] std::string remove(std::string_view from) const {
    std::string sql = "DELETE FROM " + table_.name + " AS t WHERE ";
    for (const SetColumn& column : options_.columns) {
      if (column.key && column.shared) sql += "t." + quoted_identifier(column.name) + " = " + shared(column) + " AND ";
    }
    const std::string keys = staged_keys("t.");
    // The line end: the statement may end in a comment.
    const std::string existing = "(" + options_.existing + "\n) AS e";
    if (keys.empty()) {
      sql += "EXISTS (SELECT 1 FROM " + existing + ")";
    } else {
      sql += "(" + keys + ") IN (SELECT " + staged_keys("e.") + " FROM " + existing + ")";
    }
    return sql + " AND NOT EXISTS (SELECT 1 FROM " + std::string(from) + " AS s" + where_same(false) + ")";
  }
  // Empty: the columns are all keys.
  [[nodiscard]] std::string update(std::string_view from) const {
    std::string assignments;
    std::string differs;
    for (const SetColumn& column : options_.columns) {
      if (column.key) continue;
      const std::string name = quoted_identifier(column.name);
      const std::string value = column.shared ? shared(column) : "s." + name;
      const std::string flag = "s." + flag_of(column);
      assignments += (assignments.empty() ? "" : ", ") + name + " = ";
      assignments += column.optional ? "CASE WHEN " + flag + " THEN " + value + " ELSE t." + name + " END" : value;
      const bool by_text = postgres() && is_compared_by_text(table_.find(column.name)->type);
      std::string one = by_text ? "t." + name + "::text IS DISTINCT FROM " + value + "::text"
                                : "t." + name + (postgres() ? " IS DISTINCT FROM " : " IS NOT ") + value;
      // What is equal to its collation alone is another value all the same.
      if (!postgres()) one += " COLLATE BINARY";
      differs += (differs.empty() ? "" : " OR ") + (column.optional ? "(" + flag + " AND " + one + ")" : one);
    }
    if (assignments.empty()) return {};
    return "UPDATE " + table_.name + " AS t SET " + assignments + " FROM " + std::string(from) + " AS s" +
           where_same(true) + " AND (" + differs + ")";
  }
  [[nodiscard]] std::string insert(std::string_view from) const {
    std::string names;
    std::string values;
    for (const SetColumn& column : options_.columns) {
      names += (names.empty() ? "" : ", ") + quoted_identifier(column.name);
      const std::string staged = "s." + quoted_identifier(column.name);
      const std::string& otherwise = table_.find(column.name)->default_value;
      values += values.empty() ? "" : ", ";
      if (column.shared) {
        values += shared(column);
      } else if (column.optional && !otherwise.empty()) {
        values += "CASE WHEN s." + flag_of(column) + " THEN " + staged + " ELSE (" + otherwise + ") END";
      } else {
        values += staged;
      }
    }
    return "INSERT INTO " + table_.name + " (" + names + ") SELECT " + values + " FROM " + std::string(from) +
           " AS s WHERE NOT EXISTS (SELECT 1 FROM " + table_.name + " AS t" + where_same(true) +
           ") ORDER BY s.sluice_row";
  }

 private:
  [[nodiscard]] bool postgres() const { return dialect_ == Dialect::postgres; }
  static std::string flag_of(const SetColumn& column) { return quoted_identifier("sluice has " + column.name); }
  [[nodiscard]] std::string shared(const SetColumn& column) const {
    const std::string parameter = ":" + shared_parameter(column.name);
    return postgres() ? "CAST(" + parameter + " AS " + table_.find(column.name)->type + ")" : parameter;
  }
  [[nodiscard]] std::string staged_keys(std::string_view prefix) const {
    std::string keys;
    for (const SetColumn& column : options_.columns) {
      if (!column.key || column.shared) continue;
      keys += (keys.empty() ? "" : ", ") + std::string(prefix) + quoted_identifier(column.name);
    }
    return keys;
  }
  // Of t and s. The table's column stands on the left: SQLite compares by its collation.
  [[nodiscard]] std::string where_same(bool with_shared) const {
    std::string sql;
    for (const SetColumn& column : options_.columns) {
      if (!column.key || (column.shared && !with_shared)) continue;
      const std::string name = quoted_identifier(column.name);
      sql += (sql.empty() ? " WHERE t." : " AND t.") + name + " = " + (column.shared ? shared(column) : "s." + name);
    }
    return sql;
  }

  Dialect dialect_;
  const Table& table_;
  const SetOptions& options_;
};

}  // namespace

std::string shared_parameter(std::string_view column) {
  std::string name = "set_";
  for (const char c : column) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    // What is no letter becomes its code, so that two columns never share a parameter.
    if (plain) {
      name += c;
    } else {
      name += "_" + std::to_string(static_cast<unsigned char>(c)) + "_";
    }
  }
  return name;
}

core::Task<Result<SetPlan>> prepare_set(Database& database, Dialect dialect, const Table& table, SetOptions options,
                                        std::vector<Parameter> declared) {
  const bool has_key = std::ranges::any_of(options.columns, &SetColumn::key);
  if (!has_key) co_return refuse("a set needs columns with key = true, which say when two rows are the same");
  for (const SetColumn& column : options.columns) {
    const TableColumn* const there = table.find(column.name);
    if (there == nullptr) co_return refuse("the table " + table.name + " has no column \"" + column.name + "\"");
    if (there->generated) co_return refuse("the database makes the values of \"" + column.name + "\" itself");
  }
  SetPlan plan;
  plan.dialect = dialect;
  std::uint32_t id = options.first_id;
  if (!options.existing.empty()) {
    auto existing = co_await database.prepare(options.existing, id++, declared);
    if (!existing) co_return std::unexpected(std::move(existing.error()));
    for (const SetColumn& column : options.columns) {
      if (!column.key || column.shared) continue;
      if (std::ranges::find(existing->columns, column.name, &Column::name) == existing->columns.end()) {
        co_return refuse("existing must return the key \"" + column.name + "\"");
      }
    }
    while (!options.existing.empty() && blanks.contains(options.existing.back())) options.existing.pop_back();
  }

  const Builder builder(dialect, table, options);
  plan.create = builder.create();
  plan.load = builder.load();
  plan.index = builder.index();
  for (const SetColumn& column : options.columns) {
    if (column.shared) continue;
    plan.staged.push_back(column.name);
    plan.optional.push_back(column.optional);
    plan.not_null.push_back(table.find(column.name)->not_null || column.key);
  }

  // Each statement is looked at with a query without rows in the place of the temporary table, which is not there yet.
  const std::string stage = builder.stage();
  const std::string no_rows = builder.no_rows();
  const PlaceholderStyle style = dialect == Dialect::postgres ? PlaceholderStyle::dollar : PlaceholderStyle::question;
  struct Wanted {
    std::string text;
    std::string probe;
    Statement* into;
  };
  std::vector<Wanted> wanted{{builder.distinct(stage), builder.distinct(no_rows), &plan.distinct},
                             {builder.duplicates(stage), builder.duplicates(no_rows), &plan.duplicates},
                             {builder.insert(stage), builder.insert(no_rows), &plan.insert}};
  if (!options.existing.empty()) {
    wanted.push_back({builder.remove(stage), builder.remove(no_rows), &plan.remove.emplace()});
  }
  if (std::string text = builder.update(stage); !text.empty()) {
    wanted.push_back({std::move(text), builder.update(no_rows), &plan.update.emplace()});
  }
  for (Wanted& one : wanted) {
    auto statement = co_await database.prepare_writing(one.probe, id++, declared);
    if (!statement) {
      statement.error().position = 0;  // in a text that nobody has written
      co_return std::unexpected(std::move(statement.error()));
    }
    auto parsed = parse_parameters(one.text, style);
    if (!parsed) co_return std::unexpected(std::move(parsed.error()));
    statement->text = std::move(parsed->text);
    for (const Parameter& parameter : statement->parameters) {
      if (std::ranges::find(plan.parameters, parameter.name, &Parameter::name) == plan.parameters.end()) {
        plan.parameters.push_back(parameter);
      }
    }
    *one.into = std::move(*statement);
  }
  co_return plan;
}

}  // namespace sluice::sql
