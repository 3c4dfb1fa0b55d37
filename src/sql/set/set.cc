#include "sql/set/set.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sql/parameters.h"

namespace sluice::sql {
namespace {

constexpr std::string_view blanks_and_semicolons = " \t\r\n\f\v;";

std::unexpected<Error> refuse(std::string message) {
  return std::unexpected(Error{Failure::statement, {}, std::move(message), 0});
}

PlaceholderStyle style_of(Dialect dialect) {
  return dialect == Dialect::postgres ? PlaceholderStyle::dollar : PlaceholderStyle::question;
}

const SetColumn* find_column(const SetOptions& options, std::string_view name) {
  const auto found = std::ranges::find(options.columns, name, &SetColumn::name);
  return found == options.columns.end() ? nullptr : &*found;
}

// Replaces each :name of a statement that has been parsed.
template <class Replacement>
std::string replace_parameters(std::string_view sql, const ParsedSql& parsed, Replacement replacement) {
  std::string replaced;
  std::size_t done = 0;
  for (const auto& place : parsed.placeholders) {
    replaced += sql.substr(done, place.source_begin - done);
    replaced += replacement(std::string(sql.substr(place.source_begin + 1, place.source_end - place.source_begin - 1)));
    done = place.source_end;
  }
  return replaced.append(sql.substr(done));
}

// In the table's row t.
std::string stored_value(const SetColumn& column) { return "t." + quoted_identifier(column.name); }

// A statement of the user's own.
struct RowStatement {
  std::string_view function;  // PostgreSQL
  ParsedSql parsed;
  bool has_columns = false;
};

struct RowStatements {
  std::optional<RowStatement> remove, update, insert;
  // PostgreSQL: the types, as CAST takes them, of the parameters that are not columns, and of those of `existing`.
  std::map<std::string, std::string> types;
};

class Builder {
 public:
  // `existing`: the columns of options.existing.
  Builder(Dialect dialect, const Table& table, const SetOptions& options, std::span<const Column> existing,
          const RowStatements& own)
      : dialect_(dialect), table_(table), options_(options), own_(own) {
    for (const SetColumn& column : options.columns) {
      const bool returned = std::ranges::find(existing, column.name, &Column::name) != existing.end();
      if (column.key && (!column.shared || returned)) existing_keys_.push_back(&column);
    }
  }

  // The temporary table's name in statements.
  [[nodiscard]] std::string stage() const { return postgres() ? "pg_temp.sluice_stage" : "temp.sluice_stage"; }
  // A query with the temporary table's columns and no rows: statements are prepared with it before the table exists.
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
      if (!there.collation.empty()) {
        sql += " COLLATE " + (postgres() ? there.collation : quoted_identifier(there.collation));
      }
      sql += ", ";
      if (column.optional) sql += flag_of(column) + (postgres() ? " boolean, " : " INTEGER, ");
    }
    // If the target is strict, so is this table: ANY means the same, and adding an invalid value is an error.
    return sql + (postgres()      ? "sluice_line bigint, sluice_row bigint)"
                  : table_.strict ? "sluice_line INTEGER, sluice_row INTEGER) STRICT"
                                  : "sluice_line INTEGER, sluice_row INTEGER)");
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
    return "SELECT d.sluice_line, d.sluice_row, d.sluice_first, d.sluice_first_line FROM (SELECT s.sluice_line,"
           " s.sluice_row,"
           " row_number() OVER (" +
           same +
           " ORDER BY s.sluice_row) AS sluice_count,"
           " min(s.sluice_row) OVER (" +
           same + ") AS sluice_first, min(s.sluice_line) OVER (" + same + ") AS sluice_first_line FROM " +
           std::string(from) + " AS s) AS d WHERE d.sluice_count > 1 ORDER BY d.sluice_row LIMIT 100";
  }
  [[nodiscard]] std::string outside(std::string_view from) const {
    std::string sql = "SELECT s.sluice_line, s.sluice_row FROM " + std::string(from) + " AS s, " + table_.name +
                      " AS t" + where_same(true) + " AND ";
    if (postgres()) {
      // NOT IN does not allow a hash join, and a single NULL would make it NULL for all other rows.
      std::string same;
      for (const SetColumn* const column : existing_keys_) {
        const std::string name = quoted_identifier(column->name);
        same += (same.empty() ? " WHERE e." : " AND e.") + name + " = t." + name;
      }
      sql += "NOT EXISTS (SELECT 1 FROM " + existing() + same + ")";
    } else {
      sql += "(" + is_in_existing() + ") IS NOT 1";
    }
    return sql + " ORDER BY s.sluice_row LIMIT 100";
  }
  // Empty if no key can be NULL.
  [[nodiscard]] std::string remove_null(std::string_view from) const {
    std::string is_null;
    std::string same;
    for (const SetColumn* const column : existing_keys_) {
      const TableColumn& there = *table_.find(column->name);
      const std::string name = quoted_identifier(column->name);
      same +=
          (same.empty() ? " WHERE t." : " AND t.") + name + (postgres() ? " IS NOT DISTINCT FROM e." : " IS e.") + name;
      if (column->shared) continue;
      if (!there.not_null && !there.row_id) is_null += (is_null.empty() ? "t." : " OR t.") + name + " IS NULL";
    }
    if (is_null.empty()) return {};
    const std::string rows = " FROM " + table_.name + " AS t WHERE " + shared_keys() + "(" + is_null +
                             ") AND EXISTS (SELECT 1 FROM " + existing() + same + ")";
    return own_.remove ? for_each(*own_.remove, from, rows, stored_value) : "DELETE" + rows;
  }
  [[nodiscard]] std::string remove(std::string_view from, std::string_view verb = "DELETE") const {
    const std::string rows = " FROM " + table_.name + " AS t WHERE " + shared_keys() + is_in_existing() +
                             " AND NOT EXISTS (SELECT 1 FROM " + std::string(from) + " AS s" + where_same(false) + ")";
    if (own_.remove && verb == "DELETE") return for_each(*own_.remove, from, rows, stored_value);
    return std::string(verb) + rows;
  }
  [[nodiscard]] std::string counts(std::string_view from) const {
    const std::string there =
        "SELECT count(*) FROM " + std::string(from) + " AS s, " + table_.name + " AS t" + where_same(true);
    return postgres() ? there : "SELECT (" + there + "), (" + remove(from, "SELECT count(*)") + ")";
  }
  // Empty if all columns are keys. `which`: a condition on s that selects staged rows; empty: all rows.
  [[nodiscard]] std::string update(std::string_view from, std::string_view which = {}) const {
    std::string assignments;
    std::string differs;
    for (const SetColumn& column : options_.columns) {
      if (column.key) continue;
      const std::string name = quoted_identifier(column.name);
      const std::string value = column.shared ? shared(column) : "s." + name;
      const std::string flag = "s." + flag_of(column);
      const TableColumn& there = *table_.find(column.name);
      std::string one = shows_another(dialect_, there, "t." + name, value);
      if (column.optional) one = "(" + flag + " AND " + one + ")";
      assignments += (assignments.empty() ? "" : ", ") + name + " = ";
      // If only another column differs, JSON that looks the same keeps its value too.
      const bool may_stay = column.optional || is_json(there.kind);
      assignments +=
          may_stay ? "CASE WHEN " + (is_json(there.kind) ? one : flag) + " THEN " + value + " ELSE t." + name + " END"
                   : value;
      differs += (differs.empty() ? "" : " OR ") + one;
    }
    if (assignments.empty()) return {};
    const std::string where = where_same(true) + in_scope() + " AND (" + differs + ")" + and_(which);
    if (own_.update) {
      const auto value = [&](const SetColumn& column) {
        const std::string staged = "s." + quoted_identifier(column.name);
        if (!column.optional) return staged;
        return "CASE WHEN s." + flag_of(column) + " THEN " + staged + " ELSE t." + quoted_identifier(column.name) +
               " END";
      };
      return for_each(
          *own_.update, from,
          " FROM " + table_.name + " AS t, " + std::string(from) + " AS s" + where + " ORDER BY s.sluice_row", value);
    }
    return "UPDATE" + table_.or_abort + " " + table_.name + " AS t SET " + assignments + " FROM " + std::string(from) +
           " AS s" + where;
  }
  [[nodiscard]] std::string insert(std::string_view from, std::string_view which = {}) const {
    const auto value = [&](const SetColumn& column) {
      const std::string staged = "s." + quoted_identifier(column.name);
      const std::string& otherwise = table_.find(column.name)->default_value;
      if (!column.optional || column.defaulted || otherwise.empty()) return staged;
      return "CASE WHEN s." + flag_of(column) + " THEN " + staged + " ELSE (" + otherwise + ") END";
    };
    const std::string rows = " FROM " + std::string(from) + " AS s WHERE NOT EXISTS (SELECT 1 FROM " + table_.name +
                             " AS t" + where_same(true) + in_scope() + ")" + and_(which) + " ORDER BY s.sluice_row";
    if (own_.insert) return for_each(*own_.insert, from, rows, value);
    std::string names;
    std::string values;
    for (const SetColumn& column : options_.columns) {
      names += (names.empty() ? "" : ", ") + quoted_identifier(column.name);
      values += (values.empty() ? "" : ", ") + (column.shared ? shared(column) : value(column));
    }
    return "INSERT" + table_.or_abort + " INTO " + table_.name + " (" + names + ") SELECT " + values + rows;
  }

  // The value of SetStep::each for an own statement.
  [[nodiscard]] std::string each(const RowStatement& own) const {
    const std::string& text = own.parsed.text;
    if (!postgres()) return text;
    std::string types;
    std::string arguments;
    for (const std::string& name : own.parsed.names) {
      arguments += (types.empty() ? " USING $" : ", $") + std::to_string(&name - own.parsed.names.data() + 1);
      types += (types.empty() ? "" : ", ") + type_of(name);
    }
    // PL/pgSQL discards the rows of a statement only if EXECUTE runs it, and EXECUTE plans the statement for each row.
    const std::string run = own.has_columns ? "EXECUTE " + literal(text) + arguments : text + "\n";
    return "CREATE FUNCTION pg_temp." + std::string(own.function) + "(" + types +
           ") RETURNS bigint LANGUAGE plpgsql AS " +
           literal("#variable_conflict use_column\nDECLARE sluice_changes bigint;\nBEGIN\n" + run +
                   ";\nGET DIAGNOSTICS sluice_changes = ROW_COUNT;\nRETURN sluice_changes;\nEND");
  }

  // Writes rows as update() and insert() do, in that order: a thousand rows at a time, and, if some are refused, half
  // as many each time, down to one. A DO has no parameters, so they are passed as settings.
  [[nodiscard]] std::vector<std::string> find_faults() {
    values_are_settings_ = true;
    const std::string which = "s.sluice_row BETWEEN $1 AND $2";
    // EXECUTE plans anew for each range, because a plan for the empty table would scan the grown table for each row.
    const auto write = [](const std::string& statement) {
      return statement.empty()
                 ? ""
                 : "EXECUTE " + literal(statement) + " USING sluice_first, sluice_first + sluice_many - 1;\n";
    };
    const std::string writes = write(update(stage(), which)) +
                               "IF coalesce(current_setting('sluice_set.updates_alone', true), '') = '' THEN\n" +
                               write(insert(stage(), which)) + "END IF;\n";
    values_are_settings_ = false;
    // After a rollback the planner may take a full table for an empty one, so no plan may scan the whole table.
    // `sluice_known`: the end of a range of rows that is known to contain a refused one.
    const std::string block =
        "DECLARE sluice_first bigint := 0; sluice_many bigint := 1024; sluice_known bigint := 0;"
        " sluice_end bigint; sluice_found integer := 0;"
        " sluice_state text; sluice_constraint text; sluice_column text;\n"
        "BEGIN PERFORM set_config(name, 'off', true) FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin',"
        " 'enable_mergejoin', 'enable_material']) AS name;\n"
        "SELECT max(s.sluice_row) + 1 INTO sluice_end FROM " +
        stage() + " AS s;\nWHILE sluice_first < sluice_end AND sluice_found < 100 LOOP BEGIN\n" + writes +
        "sluice_first := sluice_first + sluice_many;\n"
        "sluice_many := CASE WHEN sluice_first < sluice_known"
        " THEN greatest((sluice_known - sluice_first) / 2, 1) ELSE least(sluice_many * 2, 1024) END;\n"
        "EXCEPTION WHEN integrity_constraint_violation OR data_exception OR program_limit_exceeded OR raise_exception "
        "THEN\n"
        "IF sluice_many > 1 THEN sluice_known := sluice_first + sluice_many; sluice_many := sluice_many / 2;\nELSE\n"
        "GET STACKED DIAGNOSTICS sluice_state = RETURNED_SQLSTATE, sluice_constraint = CONSTRAINT_NAME,"
        " sluice_column = COLUMN_NAME;\n"
        "INSERT INTO pg_temp.sluice_faults SELECT s.sluice_line, s.sluice_row, sluice_state, sluice_constraint,"
        " sluice_column FROM " +
        stage() +
        " AS s WHERE s.sluice_row = sluice_first;\n"
        "sluice_first := sluice_first + 1; sluice_known := sluice_first; sluice_found := sluice_found + 1;\n"
        "END IF;\nEND;\nEND LOOP;\nEND";
    return {
        "CREATE TEMPORARY TABLE sluice_faults (line bigint, row bigint, state text, constr text, col text)"
        " ON COMMIT DROP",
        "CREATE INDEX sluice_stage_row ON " + stage() + " (sluice_row)", "ANALYZE " + stage() + " (sluice_row)",
        "DO " + literal(block),
        // Statements of triggers may have been planned under these settings.
        "DISCARD PLANS"};
  }

  [[nodiscard]] std::string type_of(const std::string& parameter) const {
    const TableColumn* const column = find_column(options_, parameter) ? table_.find(parameter) : nullptr;
    return column != nullptr ? column->type : own_.types.at(parameter);
  }

 private:
  // Runs an own statement for each of `rows`, which begins with FROM. `value`: the row's value of a column. The rows
  // are materialized, because the statement may change what selects them. Counts the rows that it has changed.
  template <class Value>
  [[nodiscard]] std::string for_each(const RowStatement& own, std::string_view from, const std::string& rows,
                                     Value value) const {
    std::string selected;
    std::string arguments;
    for (const std::string& name : own.parsed.names) {
      const std::string alias = "p" + std::to_string(&name - own.parsed.names.data());
      const SetColumn* const column = find_column(options_, name);
      selected += (selected.empty() ? "" : ", ") +
                  (column == nullptr ? parameter(name)
                   : column->shared  ? shared(*column)
                                     : value(*column)) +
                  " AS " + alias;
      arguments += (arguments.empty() ? "" : ", ") + alias;
    }
    const std::string sql =
        "WITH sluice_rows AS MATERIALIZED (SELECT " + (selected.empty() ? "1 AS one" : selected) + rows + ") SELECT ";
    if (!postgres()) return sql + "* FROM sluice_rows";
    if (from != stage())
      return sql + "0::bigint AS changes FROM sluice_rows";  // the function exists only during a request
    return sql + "coalesce(sum(least(pg_temp." + std::string(own.function) + "(" + arguments +
           "), 1)), 0)::bigint AS changes FROM sluice_rows";
  }
  // A parameter that is not a column's.
  [[nodiscard]] std::string parameter(const std::string& name) const {
    if (!postgres()) return ":" + name;
    return "CAST(" + (values_are_settings_ ? setting(name) : ":" + name) + " AS " + own_.types.at(name) + ")";
  }
  [[nodiscard]] static std::string setting(std::string_view name) {
    return "substr(nullif(current_setting('" + setting_of(name) + "'), ''), 2)";
  }
  // An own `insert` also gets the rows of the table that `existing` does not select.
  [[nodiscard]] std::string in_scope() const {
    return own_.insert && !options_.existing.empty() ? " AND " + is_in_existing() : "";
  }
  [[nodiscard]] bool postgres() const { return dialect_ == Dialect::postgres; }
  static std::string and_(std::string_view which) { return which.empty() ? "" : " AND " + std::string(which); }
  // E'...' has the same meaning under any standard_conforming_strings.
  static std::string literal(std::string_view text) {
    std::string quoted = "E'";
    for (const char c : text) {
      if (c == '\'' || c == '\\') quoted += c;
      quoted += c;
    }
    return quoted + "'";
  }
  static std::string flag_of(const SetColumn& column) { return quoted_identifier("sluice has " + column.name); }
  [[nodiscard]] std::string shared(const SetColumn& column) const {
    const std::string name = shared_parameter(column.name);
    const std::string parameter = values_are_settings_ ? setting(name) : ":" + name;
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
  // The line break is needed because the statement may end in a comment.
  [[nodiscard]] std::string existing() const {
    std::string text = options_.existing;
    if (values_are_settings_) {
      text = replace_parameters(text, *parse_parameters(text, PlaceholderStyle::dollar),
                                [&](const std::string& name) { return parameter(name); });
    }
    return "(" + text + "\n) AS e";
  }
  [[nodiscard]] std::string is_in_existing() const {
    if (existing_keys_.empty()) return "EXISTS (SELECT 1 FROM " + existing() + ")";
    std::string keys;
    std::string its;
    for (const SetColumn* const column : existing_keys_) {
      const std::string name = quoted_identifier(column->name);
      keys += (keys.empty() ? "t." : ", t.") + name;
      its += (its.empty() ? "e." : ", e.") + name;
    }
    return "(" + keys + ") IN (SELECT " + its + " FROM " + existing() + ")";
  }
  // Conditions on t, each followed by AND.
  [[nodiscard]] std::string shared_keys() const {
    std::string sql;
    for (const SetColumn& column : options_.columns) {
      if (column.key && column.shared) sql += "t." + quoted_identifier(column.name) + " = " + shared(column) + " AND ";
    }
    return sql;
  }
  // A condition on t and s. The table's column is on the left, because SQLite compares with the left side's collation.
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
  const RowStatements& own_;
  std::vector<const SetColumn*> existing_keys_;  // keys that identify rows in `existing`
  bool values_are_settings_ = false;
};

constexpr std::string_view first_row_parameter = "sluice_first_row";
constexpr std::string_view last_row_parameter = "sluice_last_row";

// Adds the types of the statement's parameters that are not in `types` yet.
core::Task<Result<void>> add_types(Database& database, const Statement& statement,
                                   std::map<std::string, std::string>& types) {
  auto query = co_await database.prepare("SELECT format_type(CAST(CAST(:type AS text) AS oid), NULL)", {});
  if (!query) co_return std::unexpected(std::move(query.error()));
  for (std::size_t i = 0; i < statement.described_types.size(); ++i) {
    const std::string& name = statement.parameters[i].name;
    if (types.contains(name)) continue;
    const std::string oid = std::to_string(statement.described_types[i]);
    const Argument argument{.text = oid};
    auto cursor = co_await database.query(*query, {&argument, 1}, {});
    if (!cursor) co_return std::unexpected(std::move(cursor.error()));
    for (bool last = false; !last;) {
      auto block = co_await (*cursor)->next();
      if (!block) co_return std::unexpected(std::move(block.error()));
      if (block->rows != 0) types[name] = block->row(0)[0].view();
      last = block->last;
    }
  }
  co_return Result<void>{};
}

}  // namespace

std::string setting_of(std::string_view parameter) { return "sluice." + std::string(parameter); }

Error renumbered(Error error, const Statement& statement, const SetPlan& plan) {
  if (!error.rule || error.rule->parameter == 0 || error.rule->parameter > statement.parameters.size()) return error;
  BrokenRule rule = *error.rule;
  const std::string& name = statement.parameters[rule.parameter - 1].name;
  const auto at = std::ranges::find(plan.parameters, name, &Parameter::name);
  rule.parameter = static_cast<std::uint32_t>(at - plan.parameters.begin()) + 1;
  error.rule = std::make_shared<const BrokenRule>(std::move(rule));
  return error;
}

std::string shared_parameter(std::string_view column) {
  std::string name = "set_";
  for (const char c : column) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    // A character that is not a letter or digit becomes its code, so that two columns never share a parameter.
    if (plain) {
      name += c;
    } else {
      name += "_" + std::to_string(static_cast<unsigned char>(c)) + "_";
    }
  }
  return name;
}

core::Task<Result<Statement>> prepare_row_statement(Database& database, Dialect dialect, const Table& table,
                                                    const SetOptions& options, std::string text,
                                                    std::vector<Parameter> declared) {
  auto parsed = parse_parameters(text, style_of(dialect));
  if (!parsed) co_return std::unexpected(std::move(parsed.error()));
  if (dialect == Dialect::sqlite) co_return co_await database.prepare_writing(text, declared);
  constexpr std::size_t most_arguments = 100;  // of a function
  if (parsed->names.size() > most_arguments) co_return refuse("a statement for single rows takes 100 parameters");
  const std::string typed = replace_parameters(text, *parsed, [&](const std::string& name) {
    const TableColumn* const column = find_column(options, name) ? table.find(name) : nullptr;
    return column == nullptr ? ":" + name : "CAST(:" + name + " AS " + column->type + ")";
  });
  auto statement = co_await database.prepare_writing(typed, declared);
  if (!statement && statement.error().position != 0) {
    // The position is in another text, unless the statement as it was written has the same error.
    auto plain = co_await database.prepare_writing(text, declared);
    statement.error().position = plain ? 0 : plain.error().position;
  }
  co_return statement;
}

core::Task<Result<SetPlan>> prepare_set(Database& database, Dialect dialect, const Table& table, SetOptions options,
                                        std::vector<Parameter> declared) {
  // INSTEAD OF triggers may do anything, and changes are not counted.
  if (table.is_view) co_return refuse(table.name + " is a view, and a set needs a table");
  const bool has_key = std::ranges::any_of(options.columns, &SetColumn::key);
  if (!has_key) co_return refuse("a set needs columns with key = true, which say when two rows are the same");
  for (const SetColumn& column : options.columns) {
    const TableColumn* const there = table.find(column.name);
    if (there == nullptr) co_return refuse("the table " + table.name + " has no column \"" + column.name + "\"");
    if (there->generated) co_return refuse("the database makes the values of \"" + column.name + "\" itself");
  }
  std::vector<std::string> keys;
  for (const SetColumn& column : options.columns) {
    if (column.key) keys.push_back(column.name);
  }
  if (table.has_indices && !table.is_unique(keys)) {
    std::string names;
    for (const std::string& name : keys) names += (names.empty() ? "\"" : "\", \"") + name;
    co_return refuse("the table " + table.name + " may have several rows with the same key (" + names +
                     "\"): a set needs a primary key, or a unique constraint, of these columns or some of them");
  }
  SetPlan plan;
  plan.dialect = dialect;
  RowStatements own;
  std::vector<Column> existing_columns;
  if (!options.existing.empty()) {
    auto existing = co_await database.prepare(options.existing, declared);
    if (!existing) co_return std::unexpected(std::move(existing.error()));
    for (const SetColumn& column : options.columns) {
      if (!column.key || column.shared) continue;
      if (std::ranges::find(existing->columns, column.name, &Column::name) == existing->columns.end()) {
        co_return refuse("existing must return the key \"" + column.name + "\"");
      }
    }
    existing_columns = std::move(existing->columns);
    if (const bool has_own = !(options.own_delete + options.own_insert + options.own_update).empty();
        has_own && dialect == Dialect::postgres) {
      if (auto added = co_await add_types(database, *existing, own.types); !added) {
        co_return std::unexpected(std::move(added.error()));
      }
    }
    while (!options.existing.empty() && blanks_and_semicolons.contains(options.existing.back()))
      options.existing.pop_back();
  }

  struct Given {
    const std::string& text;
    std::string_view function;
    std::optional<RowStatement>& into;
  };
  for (const Given& given :
       {Given{options.own_delete, "sluice_delete", own.remove}, Given{options.own_update, "sluice_update", own.update},
        Given{options.own_insert, "sluice_insert", own.insert}}) {
    if (given.text.empty()) continue;
    auto statement = co_await prepare_row_statement(database, dialect, table, options, given.text, declared);
    if (!statement) co_return std::unexpected(std::move(statement.error()));
    if (auto added = Result<void>{}; dialect == Dialect::postgres) {
      added = co_await add_types(database, *statement, own.types);
      if (!added) co_return std::unexpected(std::move(added.error()));
    }
    given.into = RowStatement{.function = given.function,
                              .parsed = *parse_parameters(given.text, style_of(dialect)),
                              .has_columns = !statement->columns.empty()};
  }

  Builder builder(dialect, table, options, existing_columns, own);
  if (own.update && builder.update(builder.stage()).empty()) {
    co_return refuse("all columns of the set are keys, so no row is ever updated: it has no use for \"update\"");
  }
  plan.create = builder.create();
  plan.load = builder.load();
  plan.type_check = table.type_check;
  plan.index = builder.index();
  for (const SetColumn& column : options.columns) {
    if (column.shared) continue;
    plan.staged.push_back(column.name);
    plan.optional.push_back(column.optional);
    plan.not_null.push_back(table.find(column.name)->not_null || column.key);
  }

  const std::string stage = builder.stage();
  const std::string no_rows = builder.no_rows();
  const PlaceholderStyle style = style_of(dialect);
  struct Wanted {
    std::string text;
    std::string probe;
    Statement* into;
    bool own = false;  // its parameters are not those of the plan
  };
  std::vector<Wanted> wanted{{builder.distinct(stage), builder.distinct(no_rows), &plan.distinct},
                             {builder.duplicates(stage), builder.duplicates(no_rows), &plan.duplicates},
                             {builder.insert(stage), builder.insert(no_rows), &plan.insert}};
  if (!options.existing.empty()) {
    if (!own.insert) wanted.push_back({builder.outside(stage), builder.outside(no_rows), &plan.outside.emplace()});
    if (options.removes) {
      wanted.push_back({builder.remove(stage), builder.remove(no_rows), &plan.remove.emplace()});
    }
    if (options.removes && table.deletes_more) {
      wanted.push_back({builder.counts(stage), builder.counts(no_rows), &plan.counts.emplace()});
    }
    if (const std::string text = builder.remove_null(stage); options.removes && !text.empty()) {
      wanted.push_back({text, builder.remove_null(no_rows), &plan.remove_null.emplace()});
    }
  }
  if (std::string text = builder.update(stage); !text.empty()) {
    wanted.push_back({std::move(text), builder.update(no_rows), &plan.update.emplace()});
  }
  if (dialect == Dialect::postgres) {
    plan.find_faults = builder.find_faults();
    const std::string set = "SELECT set_config(CAST(:name AS text), CAST(:value AS text), true)";
    wanted.push_back({set, set, &plan.set_value, true});
    wanted.push_back(
        {"SELECT * FROM pg_temp.sluice_faults ORDER BY row",
         "SELECT 0::bigint AS line, 0::bigint AS row, ''::text AS state, ''::text AS constr, ''::text AS col",
         &plan.faults});
  } else {
    const std::string which =
        "s.sluice_row BETWEEN :" + std::string(first_row_parameter) + " AND :" + std::string(last_row_parameter);
    wanted.push_back({builder.insert(stage, which), builder.insert(no_rows, which), &plan.insert_rows});
    if (std::string text = builder.update(stage, which); !text.empty()) {
      wanted.push_back({std::move(text), builder.update(no_rows, which), &plan.update_rows.emplace()});
    }
  }
  for (Wanted& one : wanted) {
    auto statement = co_await database.prepare_writing(one.probe, declared);
    if (!statement) {
      statement.error().position = 0;  // it refers to generated SQL
      co_return std::unexpected(std::move(statement.error()));
    }
    auto parsed = parse_parameters(one.text, style);
    if (!parsed) co_return std::unexpected(std::move(parsed.error()));
    statement->text = std::move(parsed->text);
    database.give_id(*statement);
    for (const Parameter& parameter : statement->parameters) {
      if (one.own || parameter.name == first_row_parameter || parameter.name == last_row_parameter) continue;
      if (std::ranges::find(plan.parameters, parameter.name, &Parameter::name) == plan.parameters.end()) {
        plan.parameters.push_back(parameter);
      }
    }
    *one.into = std::move(*statement);
  }
  const auto complete = [&](SetStep& step, const std::optional<RowStatement>& statement) {
    if (!statement) return;
    step.each = builder.each(*statement);
    step.drop = "DROP FUNCTION pg_temp." + std::string(statement->function);
  };
  complete(plan.insert, own.insert);
  complete(plan.insert_rows, own.insert);
  if (plan.update) complete(*plan.update, own.update);
  if (plan.update_rows) complete(*plan.update_rows, own.update);
  if (plan.remove) complete(*plan.remove, own.remove);
  if (plan.remove_null) complete(*plan.remove_null, own.remove);
  co_return plan;
}

}  // namespace sluice::sql
