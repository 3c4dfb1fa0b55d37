#include "app/routes/endpoint/prepare_list.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/source.h"
#include "app/config/text.h"
#include "app/prepare/preparation.h"
#include "app/routes/endpoint/read_plan.h"
#include "base/contains.h"
#include "http/router.h"
#include "sql/enums.h"
#include "sql/parameters.h"
#include "sql/postgres/types.h"
#include "sql/sqlite/json_results.h"
#include "sql/tokens.h"

namespace sluice::app {
namespace {

using api::resident::ValueType;
using ListPlan = api::list::Plan;

// The clause that keeps the database from pushing conditions into the statement; empty if it has no such clause.
std::string_view barrier_of(std::string_view statement) {
  constexpr std::array<std::string_view, 9> barriers{"limit",  "offset",    "fetch",  "distinct", "group",
                                                     "having", "intersect", "except", "union"};
  const sql::Tokens tokens(statement);
  for (std::size_t i = 0; i < tokens.size(); i = tokens.skip(i)) {
    if (tokens[i].kind != sql::Token::Kind::word) continue;
    const auto found = std::ranges::find(barriers, tokens[i].text);
    const bool is_all = tokens[i].text == "union" && tokens.is_word(i + 1, "all");
    if (found != barriers.end() && !is_all) return *found;
    if (tokens[i].text == "over" && (tokens.is_sign(i + 1, "(") || tokens.is_identifier(i + 1))) return "over";
  }
  return {};
}

bool has_order_by(std::string_view statement) {
  const sql::Tokens tokens(statement);
  for (std::size_t i = 0; i < tokens.size(); i = tokens.skip(i)) {
    if (tokens.is_word(i, "order")) return true;
  }
  return false;
}

bool contains_name(const std::vector<Located<std::string>>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const auto& one) { return one.value == name; });
}

std::string upper(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = static_cast<char>(c - 'a' + 'A');
  return text;
}

}  // namespace

sql::Result<std::shared_ptr<const ListPlan>> ListPreparation::prepare() {
  const auto pattern = http::Pattern::parse(endpoint_.path.value);
  declared_ = api::declared_parameters(endpoint_, *pattern);
  add_columns();
  for (const std::string_view name : made_->vocabulary.others.all()) {
    if (!api::query::is_reserved(name)) continue;
    complain(endpoint_.get.position,
             fmt::format("?{}= belongs to the list; give the parameter of \"get\" another name", name));
  }
  check_search();
  check_filters();
  check_sorts();
  check_order();
  check_limits();
  if (away_) return std::unexpected(std::move(*away_));
  return made_;
}

// Without a semicolon at the end.
std::string ListPreparation::written() const {
  const auto style = is_postgres() ? sql::PlaceholderStyle::dollar : sql::PlaceholderStyle::question;
  const auto parsed = sql::parse_parameters(endpoint_.get.value, style);
  if (!parsed) return endpoint_.get.value;
  return endpoint_.get.value.substr(0, parsed->source_offset(static_cast<std::uint32_t>(parsed->text.size())));
}

void ListPreparation::add_columns() {
  const auto& columns = get_.statement.columns;
  api::query::Vocabulary& words = made_->vocabulary;
  std::vector<bool> json(columns.size());
  if (!is_postgres()) json = sql::sqlite::json_results(get_.statement.text, columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const sql::Column& column = columns[i];
    const auto type = ValueType::of(column);
    words.columns.push_back({.name = column.name, .type = type.value_or(ValueType{}), .shows = true});
    const std::string quoted = api::list::quoted_name(column.name);
    made_->columns.push_back(
        {.name = "list." + quoted,
         .quoted = quoted,
         .kind = is_postgres() ? sql::ColumnKind::by_server : sql::sqlite_column_kind(column.declared_type),
         .may_be_null = i >= facts_.size() || !facts_[i].never_null,
         .is_json = json[i]});
  }
  words.bounds = {.conditions = options_.conditions, .values = options_.values, .depth = options_.depth};
  words.pages = options_.cursors;
  words.skips_empty = true;
  words.counts = options_.count;
  words.others = get_.query;
  words.any = endpoint_.query == api::QueryParameters::any;
}

std::optional<std::size_t> ListPreparation::find(const Located<std::string>& name, std::string_view key) {
  const auto found = made_->vocabulary.find(name.value);
  if (found) return found;
  std::vector<std::string_view> names;
  for (const sql::Column& column : get_.statement.columns) names.push_back(column.name);
  complain(name.position, fmt::format("\"get\" returns no column \"{}\", which \"{}\" names", name.value, key),
           config::did_you_mean(name.value, names));
  return std::nullopt;
}

bool ListPreparation::accepts(const std::string& rest) {
  if (!is_postgres() || away_) return true;
  const auto prepared = loop_.run(database_.prepare(subquery() + rest, declared_));
  if (prepared) return true;
  if (is_away(prepared.error())) away_ = prepared.error();
  return false;
}

// Only enums have values that must be listed.
void ListPreparation::read_labels() {
  const auto is_own_type = [&](std::size_t i) {
    const std::uint32_t oid = get_.statement.columns[i].type_id;
    return made_->vocabulary.columns[i].filters && oid != 0 && sql::postgres::builtin_type(oid) == nullptr;
  };
  bool needed = false;
  for (std::size_t i = 0; i < made_->columns.size(); ++i) needed |= is_own_type(i);
  if (!is_postgres() || !needed || away_) return;
  const auto enums = loop_.run(sql::read_enums(database_));
  if (!enums) {
    if (is_away(enums.error())) away_ = enums.error();
    return;
  }
  for (std::size_t i = 0; i < made_->columns.size(); ++i) {
    const auto type = std::ranges::find(*enums, get_.statement.columns[i].type_id, &sql::EnumType::oid);
    if (!is_own_type(i) || type == enums->end()) continue;
    made_->vocabulary.columns[i].labels = type->labels;
    made_->vocabulary.columns[i].is_text = false;
  }
}

// Which of the columns the database accepts in a condition. Each statement costs PostgreSQL milliseconds, so all
// columns are tried together first. `with_itself`: the column stands behind the sign, too.
std::vector<bool> ListPreparation::accepted(const std::vector<std::size_t>& columns, std::string_view sign,
                                            bool with_itself) {
  const auto condition = [&](std::size_t column) {
    const std::string& name = made_->columns[column].name;
    return name + std::string(sign) + (with_itself ? name : "");
  };
  std::string all;
  for (const std::size_t column : columns) all += (all.empty() ? "WHERE " : " AND ") + condition(column);
  std::vector<bool> results(columns.size(), true);
  if (columns.empty() || accepts(all)) return results;
  for (std::size_t i = 0; i < columns.size(); ++i) results[i] = accepts("WHERE " + condition(columns[i]));
  return results;
}

void ListPreparation::check_filters() {
  std::vector<std::size_t> comparable;
  std::vector<std::size_t> texts;
  for (const auto& name : options_.filter) {
    const auto index = find(name, "filter");
    if (!index) continue;
    api::query::Column& column = made_->vocabulary.columns[*index];
    const auto type = ValueType::of(get_.statement.columns[*index]);
    if (api::query::is_reserved(name.value) || made_->vocabulary.others.knows(name.value)) {
      complain(
          name.position,
          fmt::format("\"filter\": ?{}= has another meaning here; give the column another name with AS", name.value));
    } else if (std::exchange(column.filters, true)) {
      complain(name.position, fmt::format("\"filter\" names \"{}\" twice", name.value));
    } else if (!type || !type->is_single()) {
      complain(name.position,
               fmt::format("\"filter\": \"{}\" has values without equality: JSON, arrays, composites", name.value));
    } else {
      comparable.push_back(*index);
    }
    if (!type) continue;
    const bool may_be_text = type->kind == api::resident::Kind::text || (type->kind == api::resident::Kind::dynamic &&
                                                                         type->spelling == ValueType::Spelling::plain);
    if (may_be_text) texts.push_back(*index);
    column.is_boolean = type->kind == api::resident::Kind::boolean || type->spelling == ValueType::Spelling::boolean;
  }
  const auto equal = accepted(comparable, " = ", true);
  for (std::size_t i = 0; i < comparable.size(); ++i) {
    if (equal[i]) continue;
    const std::string& name = made_->vocabulary.columns[comparable[i]].name;
    const auto where = std::ranges::find(options_.filter, name, [](const auto& one) { return one.value; });
    complain(where->position, fmt::format("\"filter\": the type of \"{}\" has no equality", name));
  }
  const auto ordered = accepted(comparable, " < ", true);
  for (std::size_t i = 0; i < comparable.size(); ++i) made_->vocabulary.columns[comparable[i]].orders = ordered[i];
  const auto matched = accepted(texts, " LIKE '%'", false);
  for (std::size_t i = 0; i < texts.size(); ++i) made_->vocabulary.columns[texts[i]].is_text = matched[i];
  read_labels();
}

bool ListPreparation::has_order(std::size_t column) {
  const auto type = ValueType::of(get_.statement.columns[column]);
  if (!type || !type->is_single()) return false;
  const bool is_known = all_sort_ && contains_name(options_.sort, made_->vocabulary.columns[column].name);
  return is_known || accepts("ORDER BY " + made_->columns[column].name);
}

void ListPreparation::check_sorts() {
  std::string all;
  for (const auto& name : options_.sort) {
    const auto index = made_->vocabulary.find(name.value);
    if (index) all += (all.empty() ? "ORDER BY " : ", ") + made_->columns[*index].name;
  }
  all_sort_ = !all.empty() && accepts(all);
  for (const auto& name : options_.sort) {
    const auto index = find(name, "sort");
    if (!index) continue;
    if (name.value.contains(',') || name.value.starts_with('-')) {
      complain(name.position,
               fmt::format("\"sort\": ?sort= cannot name \"{}\"; give the column another name with AS", name.value));
    } else if (std::exchange(made_->vocabulary.columns[*index].sorts, true)) {
      complain(name.position, fmt::format("\"sort\" names \"{}\" twice", name.value));
    } else if (!has_order(*index)) {
      complain(name.position, fmt::format("\"sort\": the values of \"{}\" have no order", name.value));
    }
  }
}

void ListPreparation::check_order() {
  auto order = api::query::parse_order(made_->vocabulary, options_.order.value, &api::query::Column::shows);
  if (!order) return complain(options_.order.position, "\"order\": " + order.error());
  made_->order = *std::move(order);
  for (const api::query::Key& key : made_->order) {
    if (has_order(key.column)) continue;
    complain(options_.order.position,
             fmt::format("\"order\": the values of \"{}\" have no order", made_->vocabulary.columns[key.column].name));
  }
}

void ListPreparation::check_search() {
  const auto& items = options_.search.items;
  if (items.empty()) return;
  made_->vocabulary.searches = true;
  for (const auto& item : items) {
    const bool is_alone = item.column.value.empty();
    if (is_alone && items.size() > 1)
      return complain(item.position, "\"search\": \"fts\" and \"tsvector\" stand alone");
    if (!is_alone) {
      made_->search = ListPlan::Search::words;
      const auto index = find(item.column, "search");
      if (!index) continue;
      made_->searched.push_back(*index);
      const std::string& sql = made_->columns[*index].name;
      const sql::ColumnKind kind = made_->columns[*index].kind;
      const bool is_number = sql::is_number_or_boolean(kind) || sql::is_json(kind) || kind == sql::ColumnKind::bytes;
      if (is_number || !accepts("WHERE " + sql + " ILIKE '%'")) {
        complain(item.column.position, fmt::format("\"search\": \"{}\" is no text", item.column.value));
      }
    } else if (!item.fts.value.empty()) {
      made_->search = ListPlan::Search::fts;
      made_->search_name = item.fts.value;
      if (is_postgres()) return complain(item.fts.position, "\"fts\" is for SQLite; PostgreSQL has \"tsvector\"");
      Located<std::string> key = item.key;
      if (key.value.empty()) key = {options_.order.value, options_.order.position};
      if (const auto index = find(key, "search")) made_->searched.push_back(*index);
      const std::string table = api::list::quoted_name(item.fts.value);
      const auto found =
          loop_.run(database_.prepare("SELECT rowid FROM " + table + " WHERE " + table + " MATCH 'a'", {}));
      if (!found) complain(item.fts.position, "\"search\": " + found.error().message);
    } else if (!item.tsvector.value.empty()) {
      made_->search = ListPlan::Search::tsvector;
      if (!is_postgres()) return complain(item.tsvector.position, "\"tsvector\" is for PostgreSQL; SQLite has \"fts\"");
      if (!item.config.empty()) made_->search_name = "'" + item.config + "'";
      const auto index = find(item.tsvector, "search");
      if (!index) return;
      made_->searched.push_back(*index);
      made_->vocabulary.columns[*index].shows = false;
      const std::string config = made_->search_name.empty() ? "" : made_->search_name + ", ";
      if (item.config.contains('\'') ||
          !accepts("WHERE " + made_->columns[*index].name + " @@ websearch_to_tsquery(" + config + "'a')")) {
        complain(item.tsvector.position,
                 fmt::format("\"search\": \"{}\" is no tsvector, or there is no configuration \"{}\"",
                             item.tsvector.value, item.config));
      }
    } else {
      complain(item.position, "\"search\" needs columns, \"fts\" or \"tsvector\"");
    }
  }
}

void ListPreparation::check_limits() {
  made_->standard_limit = options_.limit.standard.value;
  made_->most_rows = options_.limit.most.value;
  made_->max_offset = options_.max_offset;
  if (made_->standard_limit <= made_->most_rows) return;
  complain(options_.limit.standard.position, fmt::format("\"limit\": default is {}, more than max, which is {}",
                                                         made_->standard_limit, made_->most_rows));
}

ListPreparation::Advice ListPreparation::advise() {
  Advice advice;
  warn_of_barriers(advice);
  look_for_indexes(advice);
  return advice;
}

std::vector<std::string> ListPreparation::plan_of(const std::string& statement) {
  std::vector<sql::Setting> settings;
  // A small table is read whole even if an index serves.
  if (is_postgres()) settings.push_back({"enable_seqscan", "off"});
  auto lines =
      loop_.run(read_plan(database_, (is_postgres() ? "EXPLAIN (COSTS OFF) " : "EXPLAIN QUERY PLAN ") + statement,
                          declared_, {}, {.deadline = loop_.reactor->clock() + 10s, .settings = settings}));
  return lines ? std::move(*lines) : std::vector<std::string>{};
}

void ListPreparation::warn_of_barriers(Advice& into) {
  const std::string get = written();
  const std::string_view barrier = barrier_of(get_.statement.text);
  if (has_order_by(get_.statement.text) && barrier != "limit" && barrier != "fetch") {
    into.warnings.push_back("\"get\" has ORDER BY, which the order of the list replaces; leave it out");
  }
  if (barrier.empty() || made_->order.empty()) return;
  const std::string& key = made_->columns[made_->order.front().column].name;
  into.warnings.push_back(fmt::format(
      "\"get\" has {}, so the database makes all rows before it drops those that a request does not want.\n"
      "  the plan of \"get\":\n    {}\n  the plan of one row of the list:\n    {}",
      upper(barrier), fmt::join(plan_of(get), "\n    "),
      fmt::join(plan_of(subquery() + "WHERE " + key + " = (SELECT min(" + key + ") FROM (" + get + "\n) AS list)"),
                "\n    ")));
}

// Whether an index finds the rows with a value of the column. `all`: the plan without a condition. The value is one
// that PostgreSQL's planner does not know.
bool ListPreparation::finds_by(const std::string& column, const std::vector<std::string>& all) {
  const std::string value =
      is_postgres() ? "(SELECT " + column + " FROM (" + written() + "\n) AS list LIMIT 1)" : ":sluice_value";
  return std::ranges::any_of(plan_of("SELECT * FROM (" + written() + "\n) AS list WHERE " + column + " = " + value),
                             [&](const std::string& line) {
                               const bool names_it = line.contains(column.substr(6, column.size() - 7) + "=?") ||
                                                     line.contains("(rowid=?");
                               if (!is_postgres())
                                 return line.starts_with("SEARCH") && names_it && !contains(all, line);
                               return line.contains("Cond: ") && (line.contains("$0") || line.contains("(InitPlan 1)"));
                             });
}

void ListPreparation::look_for_indexes(Advice& into) {
  if (made_->search == ListPlan::Search::words) {
    into.hints.push_back(is_postgres()
                             ? "\"search\" reads all rows, unless each column has an index of pg_trgm (gin_trgm_ops)"
                             : "\"search\" reads all rows; for many rows, make an FTS5 table and set \"fts\"");
  }
  // Their values decide about the plan.
  if (!get_.statement.parameters.empty()) return;
  std::vector<std::string> filters;
  std::vector<std::string> sorts;
  const std::string rows = "SELECT * FROM (" + written() + "\n) AS list ";
  const std::vector<std::string> all = plan_of(rows);
  for (std::size_t i = 0; i < made_->columns.size(); ++i) {
    const std::string& column = made_->columns[i].name;
    const api::query::Column& words = made_->vocabulary.columns[i];
    if (words.filters && !finds_by(column, all)) filters.push_back(words.name);
    const auto sorted = words.sorts ? plan_of(rows + "ORDER BY " + column + " LIMIT 1") : all;
    const bool sorts_all = std::ranges::any_of(sorted, [](const std::string& line) {
      return line.contains("USE TEMP B-TREE FOR ORDER BY") ||
             (line.contains("Sort") && !line.contains("Sort Key") && !line.contains("Incremental"));
    });
    if (words.sorts && sorts_all) sorts.push_back(words.name);
  }
  const auto add = [&](std::string_view key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    into.hints.push_back(fmt::format("no index serves \"{}\" by: {}", key, fmt::join(names, ", ")));
  };
  add("filter", filters);
  add("sort", sorts);
}

void ListPreparation::complain(Position position, const std::string& what, std::string hint) {
  errors_.push_back({.position = position,
                     .message = "endpoint \"" + endpoint_.path.value + "\": [endpoint.list]: " + what,
                     .hint = std::move(hint)});
}

}  // namespace sluice::app
