#include "api/list/statement.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "api/column_value.h"
#include "base/utf8.h"
#include "sql/postgres/types.h"

namespace sluice::api::list {
namespace {

using query::Condition;
using query::Operator;
using sql::Dialect;
using sql::ParameterType;

constexpr std::size_t longest_pattern = 1000;  // bytes, which is SQLite's limit here (sql/sqlite/connection.cc)
constexpr std::string_view not_utf8 = "it is not UTF-8, or holds a NUL character";

bool is_plain_text(std::string_view text) { return is_utf8(text) && !text.contains('\0'); }

std::string_view sign_of(Operator op) {
  switch (op) {
    case Operator::neq:
      return " <> ";
    case Operator::gt:
      return " > ";
    case Operator::gte:
      return " >= ";
    case Operator::lt:
      return " < ";
    case Operator::lte:
      return " <= ";
    default:
      return " = ";
  }
}

// In a pattern of `like`, `*` stands for any characters, `\*` for an asterisk and `\\` for a backslash.
template <class Literal>
std::string pattern_of(std::string_view text, char any, Literal literal) {
  std::string pattern;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '*' || text[i + 1] == '\\');
    if (text[i] == '*') {
      pattern.push_back(any);
    } else {
      literal(pattern, escapes ? text[++i] : text[i]);
    }
  }
  return pattern;
}

void append_like_literal(std::string& pattern, char c) {
  if (c == '%' || c == '_' || c == '\\') pattern.push_back('\\');
  pattern.push_back(c);
}

void append_glob_literal(std::string& pattern, char c) {
  if (c == '*' || c == '?' || c == '[') {
    pattern.append({'[', c, ']'});
  } else {
    pattern.push_back(c);
  }
}

std::string pattern_of(std::string_view text, Dialect dialect) {
  return dialect == Dialect::postgres ? pattern_of(text, '%', append_like_literal)
                                      : pattern_of(text, '*', append_glob_literal);
}

template <class Number>
bool is_beyond(std::string_view value) {
  Number number{};
  return std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc::result_out_of_range;
}

// Whether a number fits into PostgreSQL's type; true for other types.
bool is_in_range(std::uint32_t oid, std::string_view value) {
  switch (oid) {
    case 21:  // int2
      return !is_beyond<std::int16_t>(value);
    case 23:  // int4
      return !is_beyond<std::int32_t>(value);
    case 700:  // float4
      return !is_beyond<float>(value);
    case 701:  // float8
      return !is_beyond<double>(value);
    default:
      return true;
  }
}

// The words as FTS5 reads them: all of them, each as it is.
std::string fts_query(const std::vector<std::string>& words) {
  std::string query;
  for (const std::string& word : words) query.append(query.empty() ? "" : " ").append(quoted_name(word));
  return query;
}

}  // namespace

std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

StatementText::StatementText(const Plan& plan, const sql::Statement& base, const query::Query& query,
                             std::vector<sql::Argument>& arguments)
    : plan_(plan), base_(base), query_(query), arguments_(arguments) {
  keys_.reserve(query.sort.size() + plan.order.size());
  keys_ = query.sort;
  where_.reserve(256);
  for (const query::Key& key : plan.order) {
    if (std::ranges::find(keys_, key.column, &query::Key::column) == keys_.end()) keys_.push_back(key);
  }
  choose_columns();
}

void StatementText::choose_columns() {
  columns_.reserve(plan_.columns.size());
  columns_ = query_.fields;
  if (columns_.empty()) {
    for (std::size_t i = 0; i < plan_.columns.size(); ++i) {
      if (plan_.vocabulary.columns[i].shows) columns_.push_back(i);
    }
  }
  shown_ = columns_.size();
  for (const query::Key& key : keys_) {
    if (std::ranges::find(columns_, key.column) == columns_.end()) columns_.push_back(key.column);
  }
}

std::expected<void, query::Refused> StatementText::add_conditions() {
  for (const Condition& condition : query_.conditions) {
    begin_condition();
    if (!add(condition)) return std::unexpected(std::move(*refused_));
  }
  for (const std::string& word : query_.words) {
    if (!is_plain_text(word)) return std::unexpected(query::Refused{"q", std::string(not_utf8)});
  }
  if (!query_.words.empty()) add_words();
  return {};
}

bool StatementText::add(const Condition& condition) {
  if (condition.negated) where_ += "NOT ";
  if (condition.kind == Condition::Kind::compare) {
    if (condition.negated) where_ += '(';
    if (!add_comparison(condition)) return false;
    if (condition.negated) where_ += ')';
    return true;
  }
  where_ += '(';
  for (const Condition& part : condition.parts) {
    if (&part != &condition.parts.front()) where_ += condition.kind == Condition::Kind::any ? " OR " : " AND ";
    if (!add(part)) return false;
  }
  where_ += ')';
  return true;
}

bool StatementText::add_comparison(const Condition& condition) {
  const bool has_classes = plan_.dialect == Dialect::sqlite && condition.op != Operator::is &&
                           condition.op != Operator::like &&
                           plan_.columns[condition.column].kind == sql::ColumnKind::any;
  if (has_classes) return add_by_class(condition);
  return add_comparison(condition, {});
}

// SQLite: a column without a declared type may hold numbers and texts. Each is compared with the value read as such.
bool StatementText::add_by_class(const Condition& condition) {
  where_ += "CASE WHEN typeof(" + plan_.columns[condition.column].name + ") IN ('integer', 'real') THEN ";
  if (!add_comparison(condition, sql::ColumnKind::numeric)) return false;
  where_ += " ELSE ";
  if (!add_comparison(condition, sql::ColumnKind::text)) return false;
  where_ += " END";
  return true;
}

// `as`: how to read the values; nothing: as the column's.
bool StatementText::add_comparison(const Condition& condition, std::optional<sql::ColumnKind> as) {
  where_ += plan_.columns[condition.column].name;
  const std::string& value = condition.values.empty() ? scratch_ : condition.values.front();
  switch (condition.op) {
    case Operator::is:
      where_ += value == "null"       ? " IS NULL"
                : value == "not_null" ? " IS NOT NULL"
                : value == "true"     ? " IS TRUE"
                                      : " IS FALSE";
      return true;
    case Operator::like: {
      if (!is_plain_text(value)) break;
      std::string pattern = pattern_of(value, plan_.dialect);
      if (pattern.size() > longest_pattern) {
        refused_ = query::Refused{plan_.vocabulary.columns[condition.column].name, "the pattern is too long"};
        return false;
      }
      where_ += plan_.dialect == Dialect::postgres ? " LIKE " : " GLOB ";
      add_owned(std::move(pattern));
      return true;
    }
    case Operator::in:
      if (condition.values.empty()) {
        where_ += " <> " + plan_.columns[condition.column].name;  // no row; unknown for NULL, as for any list
        return true;
      }
      where_ += " IN (";
      // A power of two, so that there are few shapes: the last value is repeated.
      for (std::size_t i = 0, last = condition.values.size() - 1; i <= last || (i & (i - 1)) != 0; ++i) {
        if (i != 0) where_ += ", ";
        if (!add_value(condition.column, condition.values[std::min(i, last)], as)) return false;
      }
      where_ += ')';
      return true;
    default:
      where_ += sign_of(condition.op);
      return add_value(condition.column, value, as);
  }
  refused_ = query::Refused{plan_.vocabulary.columns[condition.column].name, std::string(not_utf8)};
  return false;
}

bool StatementText::add_value(std::size_t index, std::string_view value, std::optional<sql::ColumnKind> as) {
  const query::Column& column = plan_.vocabulary.columns[index];
  resident::Key key;
  const bool is_possible = column.labels.empty() ? resident::make_asked_key(column.type, value, scratch_, key)
                                                 : std::ranges::find(column.labels, value) != column.labels.end();
  if (!is_plain_text(value)) {
    refused_ = query::Refused{column.name, std::string(not_utf8)};
    return false;
  }
  const sql::ColumnKind kind = as.value_or(plan_.columns[index].kind);
  if (!is_possible || !is_in_range(base_.columns[index].type_id, value)) {
    refused_ = query::value_fault(column);
    return false;
  }
  if (plan_.dialect == Dialect::postgres) {
    // The plus of a time zone arrives as a blank if the client has not escaped it.
    const std::size_t blank = value.rfind(' ');
    const bool has_zone = column.type.kind == resident::Kind::timestamp_tz && !value.ends_with(" BC") &&
                          blank != value.npos && value.substr(0, blank).contains(':');
    if (!has_zone) {
      add_argument(value);
      return true;
    }
    std::string text(value);
    text[blank] = '+';
    add_owned(std::move(text));
    return true;
  }
  const auto argument = column_value(kind, {.kind = Value::Kind::string, .text = value},
                                     {.is_stored = false, .allows_texts = as.has_value()});
  if (!argument) {
    refused_ = query::Refused{column.name, "it " + std::string(argument.error())};
    return false;
  }
  add_argument(*argument->text, argument->type);
  return true;
}

void StatementText::add_words() {
  begin_condition();
  const bool is_postgres = plan_.dialect == Dialect::postgres;
  switch (plan_.search) {
    case Plan::Search::none:
      break;
    case Plan::Search::fts: {
      const std::string table = quoted_name(plan_.search_name);
      where_ += fmt::format("{} IN (SELECT rowid FROM {} WHERE {} MATCH ", plan_.columns[plan_.searched[0]].name, table,
                            table);
      add_owned(fts_query(query_.words));
      where_ += ')';
      break;
    }
    case Plan::Search::tsvector: {
      where_ += plan_.columns[plan_.searched[0]].name + " @@ websearch_to_tsquery(";
      if (!plan_.search_name.empty()) where_ += plan_.search_name + ", ";
      std::string text;
      for (const std::string& word : query_.words) text.append(text.empty() ? "" : " ").append(word);
      add_owned(std::move(text));
      where_ += ')';
      break;
    }
    case Plan::Search::words:
      for (const std::string& word : query_.words) {
        where_ += &word == &query_.words.front() ? "(" : " AND (";
        for (const std::size_t column : plan_.searched) {
          if (column != plan_.searched.front()) where_ += " OR ";
          const std::string& name = plan_.columns[column].name;
          where_ += is_postgres ? name + " ILIKE " : "sluice_has(" + name + ", ";
          if (is_postgres) {
            std::string pattern = "%";
            for (const char c : word) append_like_literal(pattern, c);
            add_owned(pattern + '%');
          } else {
            add_argument(word);
            where_ += ')';
          }
        }
        where_ += ')';
      }
      break;
  }
}

void StatementText::add_argument(std::string_view text, ParameterType type) {
  arguments_.push_back({.text = text, .type = type});
  where_ += plan_.dialect == Dialect::postgres ? '$' : '?';
  where_ += std::to_string(arguments_.size());
}

void StatementText::add_owned(std::string text, ParameterType type) {
  add_argument(owned_.emplace_back(std::move(text)), type);
}

void StatementText::add_key_order(std::string& into, std::string_view prefix, bool reversed) const {
  into += " ORDER BY ";
  for (const query::Key& key : keys_) {
    const Plan::Column& column = plan_.columns[key.column];
    if (&key != &keys_.front()) into += ", ";
    into.append(prefix).append(column.quoted);
    const bool descending = key.descending != reversed;
    if (descending) into += " DESC";
    if (plan_.dialect == Dialect::sqlite && column.may_be_null) into += descending ? " NULLS FIRST" : " NULLS LAST";
  }
}

std::uint64_t StatementText::digest() const {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::string_view text) { hash = XXH3_64bits_withSeed(text.data(), text.size(), hash); };
  add(base_.text);
  add(where_);
  for (const query::Key& key : keys_) {
    add(plan_.columns[key.column].quoted);
    add(key.descending ? "-" : "+");
  }
  for (const sql::Argument& argument : arguments_) add(argument.text.value_or(std::string_view("\0", 1)));
  return hash;
}

bool StatementText::compares_as_row(std::span<const CursorValue> values) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const bool is_plain = values[i].text && !plan_.columns[keys_[i].column].may_be_null;
    if (!is_plain || keys_[i].descending != keys_.front().descending) return false;
  }
  return true;
}

void StatementText::add_cursor(std::span<const CursorValue> values, Direction direction) {
  backward_ = direction == Direction::backward;
  std::string conditions = std::exchange(where_, {});  // arguments are written behind where_
  if (compares_as_row(values)) {
    std::string left;
    std::string right;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      left.append(i == 0 ? "(" : ", ").append(plan_.columns[keys_[i].column].name);
      where_.clear();
      add_owned(*values[i].text, values[i].type);
      right.append(i == 0 ? "(" : ", ").append(where_);
    }
    behind_ = left + (keys_.front().descending != backward_ ? ") < " : ") > ") + right + ')';
  } else {
    add_behind(values, 0);
    behind_ = std::move(where_);
  }
  where_ = std::move(conditions);
}

// The condition that a row is behind the one with these values, by the keys from `index` on. NULL is the greatest.
void StatementText::add_behind(std::span<const CursorValue> values, std::size_t index) {
  const Plan::Column& column = plan_.columns[keys_[index].column];
  const bool descending = keys_[index].descending != backward_;
  const bool is_last = index + 1 == keys_.size();
  std::string behind;
  std::string equal = column.name + " IS NULL";
  if (values[index].text) {
    std::string before = std::exchange(where_, {});
    add_owned(*values[index].text, values[index].type);
    const std::string placeholder = std::exchange(where_, std::move(before));
    behind = column.name + (descending ? " < " : " > ") + placeholder;
    equal = column.name + " = " + placeholder;
    if (!descending && column.may_be_null) {
      behind += " OR " + column.name + " IS NULL";
    } else if (index == 0 && !is_last) {
      where_ += column.name + (descending ? " <= " : " >= ") + placeholder + " AND ";  // for an index
    }
  } else if (descending) {
    behind = column.name + " IS NOT NULL";
  }
  where_ += '(' + behind;
  if (is_last) {
    where_ += behind.empty() ? "FALSE)" : ")";
    return;
  }
  where_ += (behind.empty() ? "" : " OR ") + equal + " AND ";
  add_behind(values, index + 1);
  where_ += ')';
}

void StatementText::add_columns(std::string& into, std::string_view prefix, bool is_outermost) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Plan::Column& column = plan_.columns[columns_[i]];
    // The same text means the same answer: what is not shown is marked.
    into += i == 0 ? "" : i == shown_ ? ", /* for the order: */ " : ", ";
    if (is_outermost && column.is_json) {
      into.append("json(").append(prefix).append(column.quoted).append(") AS ").append(column.quoted);
    } else {
      into.append(prefix).append(column.quoted);
    }
  }
}

void StatementText::finish(std::uint64_t rows, std::uint64_t offset, bool counts, std::string& text) {
  const auto add_from = [&] { text.append(" FROM (").append(base_.text).append(") AS list").append(where_); };
  text.clear();
  if (counts) {
    text += "SELECT ";
    add_columns(text, "page.", true);
    text += ", page.sluice_row, total.sluice_total FROM (SELECT count(*) AS sluice_total";
    add_from();
    text += ") AS total LEFT JOIN (";
  }
  text += "SELECT ";
  add_columns(text, "list.", !counts);
  if (counts) text += ", 1 AS sluice_row";
  add_from();
  if (!behind_.empty()) text.append(where_.empty() ? " WHERE " : " AND ").append(behind_);
  add_key_order(text, "list.", backward_);
  std::string conditions = std::exchange(where_, " LIMIT ");
  add_owned(std::to_string(rows), ParameterType::integer);
  if (offset != 0) {
    where_ += " OFFSET ";
    add_owned(std::to_string(offset), ParameterType::integer);
  }
  text += std::exchange(where_, std::move(conditions));
  if (counts) {
    text += ") AS page ON true";
    add_key_order(text, "page.", backward_);
  }
}

std::vector<sql::Column> StatementText::described(bool counts) const {
  std::vector<sql::Column> columns;
  for (const std::size_t index : columns_) columns.push_back(base_.columns[index]);
  if (!counts) return columns;
  const bool is_postgres = plan_.dialect == Dialect::postgres;
  for (const auto& [name, oid] : {std::pair("sluice_row", 23U), std::pair("sluice_total", 20U)}) {
    columns.push_back({.name = name,
                       .type = is_postgres ? sql::postgres::builtin_type(oid) : base_.columns.front().type,
                       .type_id = is_postgres ? oid : 0});
  }
  return columns;
}

std::string StatementText::conditions_alone() const { return "SELECT 1 FROM (" + base_.text + ") AS list" + where_; }

}  // namespace sluice::api::list
