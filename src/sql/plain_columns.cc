#include "sql/plain_columns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/ascii.h"
#include "sql/tokens.h"

namespace sluice::sql {
namespace {

using Kind = Token::Kind;

// Whether the text contains something that the two databases read differently: brackets, nested comments, E'', $$.
bool is_odd(std::string_view sql) {
  const auto at = [&](std::size_t i) { return i < sql.size() ? sql[i] : '\0'; };
  const auto is_name = [&](char c) { return is_digit(c) || is_letter(c) || c == '_'; };
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (std::string_view("[`;").contains(sql[i]) || (sql[i] == '$' && !is_digit(at(i + 1))) ||
        sql.substr(i).starts_with("/*") || ((sql[i] | 0x20) == 'e' && at(i + 1) == '\'' && !is_name(at(i - 1)))) {
      return true;
    }
  }
  return false;
}

class PlainColumnsReader {
 public:
  PlainColumnsReader(std::string_view sql, Dialect dialect) : tokens_(sql, Tokens::Case::kept), dialect_(dialect) {}

  std::optional<PlainColumns> read() {
    constexpr std::array<std::string_view, 7> not_read{"with",  "union",  "except",  "intersect",
                                                       "group", "having", "distinct"};
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Kind::word && std::ranges::find(not_read, token.text) != not_read.end()) return std::nullopt;
    }
    if (is_word(0, "select")) return read_select();
    if (is_word(0, "insert") && is_word(1, "into")) return read_returning(2);
    if (is_word(0, "update") && outer("from", 1) == tokens_.size()) return read_returning(1);
    if (is_word(0, "delete") && is_word(1, "from") && outer("using", 1) == tokens_.size()) return read_returning(2);
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool is_word(std::size_t i, std::string_view word) const { return tokens_.is_word(i, word); }
  [[nodiscard]] bool is_sign(std::size_t i, std::string_view sign) const { return tokens_.is_sign(i, sign); }
  [[nodiscard]] bool is_identifier(std::size_t i) const { return tokens_.is_identifier(i); }
  // The next `word` outside of parentheses, or the end.
  [[nodiscard]] std::size_t outer(std::string_view word, std::size_t from) const {
    int depth = 0;
    for (std::size_t i = from; i < tokens_.size(); ++i) {
      if (is_sign(i, "(")) ++depth;
      if (is_sign(i, ")")) --depth;
      if (depth == 0 && is_word(i, word)) return i;
    }
    return tokens_.size();
  }
  [[nodiscard]] bool calls_between(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      if (is_sign(i, "(")) return true;
    }
    return false;
  }

  [[nodiscard]] bool is_clause(std::size_t i) const {
    constexpr std::array<std::string_view, 6> clauses{"where", "order", "limit", "offset", "for", "fetch"};
    return tokens_[i].kind == Kind::word && std::ranges::find(clauses, tokens_[i].text) != clauses.end();
  }
  // Whether a join begins here. `left(a, 1)` is a function.
  [[nodiscard]] bool is_join(std::size_t i) const {
    constexpr std::array<std::string_view, 6> kinds{"inner", "cross", "left", "right", "full", "natural"};
    if (is_word(i, "join")) return true;
    return tokens_[i].kind == Kind::word && std::ranges::find(kinds, tokens_[i].text) != kinds.end() &&
           tokens_[i + 1].kind == Kind::word;
  }

  std::optional<PlainColumns> read_select() {
    const std::size_t from = outer("from", 1);
    const auto at = read_tables(from + 1);
    if (!at) return std::nullopt;
    // In SQLite, an aggregate over no rows returns one row in which every other column is NULL.
    const std::size_t order = outer("order", *at);
    const bool may_aggregate = calls_between(1, from) || calls_between(order, outer("limit", order));
    if (dialect_ == Dialect::sqlite && may_aggregate) return std::nullopt;
    return read_items(1, from);
  }

  // Parses the tables of FROM and their joins. Returns the index after them.
  std::optional<std::size_t> read_tables(std::size_t i) {
    bool may_be_absent = false;
    bool needs_condition = false;
    for (;;) {
      const auto behind = take_table(i);
      if (!behind) return std::nullopt;
      i = *behind;
      found_.tables.back().may_be_absent = may_be_absent;
      if (is_word(i, "as")) ++i;
      if (is_identifier(i) && !is_clause(i) && !is_join(i) && !is_word(i, "on") && !is_word(i, "using")) {
        called_.back() = tokens_[i++].text;
      }
      if (needs_condition) {
        if (!is_word(i, "on") && !is_word(i, "using")) return std::nullopt;
        while (i < tokens_.size() && !is_clause(i) && !is_join(i) && !is_sign(i, ",")) i = tokens_.skip(i);
      }
      if (i >= tokens_.size() || is_clause(i)) return i;
      const bool is_left = is_word(i, "left");
      needs_condition = !is_sign(i, ",") && !is_word(i, "cross");
      may_be_absent = is_left;
      if (is_sign(i, ",")) {
        ++i;
        continue;
      }
      if (is_left && is_word(i + 1, "outer")) ++i;
      if (is_left || is_word(i, "inner") || is_word(i, "cross") || is_word(i, "outer")) ++i;
      if (!is_word(i, "join")) return std::nullopt;
      ++i;
    }
  }

  std::optional<PlainColumns> read_returning(std::size_t table) {
    const auto at = take_table(table);
    if (!at) return std::nullopt;
    if (is_word(*at, "as") && is_identifier(*at + 1)) called_.back() = tokens_[*at + 1].text;
    const std::size_t returning = outer("returning", *at);
    if (returning == tokens_.size()) return std::nullopt;
    return read_items(returning + 1, tokens_.size());
  }

  // Parses the table. Returns the index after it.
  std::optional<std::size_t> take_table(std::size_t i) {
    const auto usable = [&](std::size_t at) { return is_identifier(at) && !tokens_[at].text.contains('.'); };
    if (!usable(i)) return std::nullopt;
    PlainColumns::Table& table = found_.tables.emplace_back(tokens_[i].text);
    called_.push_back(table.name);
    if (!is_sign(i + 1, ".")) return i + 1;
    if (!usable(i + 2)) return std::nullopt;
    called_.back() = tokens_[i + 2].text;
    table.name += "." + called_.back();
    return i + 3;
  }

  std::optional<PlainColumns> read_items(std::size_t begin, std::size_t end) {
    int depth = 0;
    for (std::size_t i = begin; i <= end; ++i) {
      if (i < end && is_sign(i, "(")) ++depth;
      if (i < end && is_sign(i, ")")) --depth;
      if (i < end && (depth != 0 || !is_sign(i, ","))) continue;
      found_.items.push_back(item(begin, i));
      begin = i + 1;
    }
    return std::move(found_);
  }

  // Parses `name` or `table.name`, either with an alias after it, or `*` or `table.*`.
  [[nodiscard]] PlainColumns::Item item(std::size_t begin, std::size_t end) const {
    std::optional<std::size_t> table;
    if (end - begin > 2 && is_identifier(begin) && is_sign(begin + 1, ".")) {
      const auto found = std::ranges::find(called_, tokens_[begin].text);
      if (found == called_.end()) return {};
      table = static_cast<std::size_t>(found - called_.begin());
      begin += 2;
    }
    if (begin + 1 == end && is_sign(begin, "*")) return {.kind = PlainColumns::Kind::all, .name = {}, .table = table};
    if (begin >= end || !is_identifier(begin)) return {};
    std::size_t behind = begin + 1;
    if (behind < end && is_word(behind, "as")) ++behind;
    if (behind < end && is_identifier(behind)) ++behind;
    if (behind != end) return {};
    return {.kind = PlainColumns::Kind::column, .name = tokens_[begin].text, .table = table};
  }

  const Tokens tokens_;
  Dialect dialect_;
  std::vector<std::string> called_;  // by table, the qualifier of its columns
  PlainColumns found_;
};

// The tables of a statement, described.
struct Described {
  Dialect dialect{};
  std::vector<PlainColumns::Table> tables;
  std::vector<Table> found = {};

  [[nodiscard]] ColumnFacts facts(std::size_t table, const TableColumn& column) const {
    return {.never_null = (column.not_null || column.row_id) && !tables[table].may_be_absent,
            .type = dialect == Dialect::postgres ? column.type : std::string()};
  }
  // Nothing is known about a name that several tables have.
  [[nodiscard]] ColumnFacts facts(const PlainColumns::Item& item) const {
    const auto folded = [&](char c) { return dialect == Dialect::sqlite ? to_lower(c) : c; };
    ColumnFacts result;
    bool is_found = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (item.table && *item.table != i) continue;
      const auto column = std::ranges::find_if(found[i].columns, [&](const TableColumn& one) {
        return std::ranges::equal(one.name, item.name, {}, folded, folded);
      });
      if (column == found[i].columns.end()) continue;
      if (is_found) return {};
      is_found = true;
      result = facts(i, *column);
    }
    return result;
  }
};

}  // namespace

std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect) {
  return is_odd(statement) ? std::nullopt : PlainColumnsReader(statement, dialect).read();
}

core::Task<std::vector<ColumnFacts>> column_facts(Database& database, Dialect dialect, std::string statement,
                                                  std::vector<Column> columns) {
  std::vector<ColumnFacts> result;
  const auto plain = plain_columns(statement, dialect);
  if (!plain) co_return result;
  Described described{.dialect = dialect, .tables = plain->tables};
  for (const PlainColumns::Table& one : plain->tables) {
    auto table = co_await describe_table(database, dialect, one.name);
    if (!table) co_return result;
    described.found.push_back(std::move(*table));
  }
  for (const PlainColumns::Item& item : plain->items) {
    if (item.kind == PlainColumns::Kind::expression) result.emplace_back();
    if (item.kind == PlainColumns::Kind::column) result.push_back(described.facts(item));
    if (item.kind != PlainColumns::Kind::all) continue;
    for (std::size_t i = 0; i < described.found.size(); ++i) {
      if (item.table && *item.table != i) continue;
      for (const TableColumn& column : described.found[i].columns) {
        // A join with USING has a common column once.
        const bool is_next = result.size() < columns.size() && columns[result.size()].name == column.name;
        if (!is_next) co_return std::vector<ColumnFacts>();
        result.push_back(described.facts(i, column));
      }
    }
  }
  if (result.size() != columns.size()) result.clear();
  co_return result;
}

}  // namespace sluice::sql
