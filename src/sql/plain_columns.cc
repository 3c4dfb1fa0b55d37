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
    constexpr std::array<std::string_view, 8> not_read{"with", "union", "except", "intersect",
                                                       "join", "group", "having", "distinct"};
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

  std::optional<PlainColumns> read_select() {
    const std::size_t from = outer("from", 1);
    auto at = take_table(from + 1);
    if (!at) return std::nullopt;
    if (is_word(*at, "as")) ++*at;
    constexpr std::array<std::string_view, 6> clauses{"where", "order", "limit", "offset", "for", "fetch"};
    const auto is_clause = [&](std::size_t i) {
      return tokens_[i].kind == Kind::word && std::ranges::find(clauses, tokens_[i].text) != clauses.end();
    };
    if (is_identifier(*at) && !is_clause(*at)) called_ = tokens_[(*at)++].text;
    if (*at < tokens_.size() && !is_clause(*at)) return std::nullopt;
    // In SQLite, an aggregate over no rows returns one row in which every other column is NULL.
    const std::size_t order = outer("order", *at);
    const bool may_aggregate = calls_between(1, from) || calls_between(order, outer("limit", order));
    if (dialect_ == Dialect::sqlite && may_aggregate) return std::nullopt;
    return read_items(1, from);
  }

  std::optional<PlainColumns> read_returning(std::size_t table) {
    const auto at = take_table(table);
    if (!at) return std::nullopt;
    if (is_word(*at, "as") && is_identifier(*at + 1)) called_ = tokens_[*at + 1].text;
    const std::size_t returning = outer("returning", *at);
    if (returning == tokens_.size()) return std::nullopt;
    return read_items(returning + 1, tokens_.size());
  }

  // Parses the table. Returns the index after it.
  std::optional<std::size_t> take_table(std::size_t i) {
    const auto usable = [&](std::size_t at) { return is_identifier(at) && !tokens_[at].text.contains('.'); };
    if (!usable(i)) return std::nullopt;
    called_ = found_.table = tokens_[i].text;
    if (!is_sign(i + 1, ".")) return i + 1;
    if (!usable(i + 2)) return std::nullopt;
    called_ = tokens_[i + 2].text;
    found_.table += "." + called_;
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
    if (end - begin > 2 && is_identifier(begin) && is_sign(begin + 1, ".")) {
      if (tokens_[begin].text != called_) return {};
      begin += 2;
    }
    if (begin + 1 == end && is_sign(begin, "*")) return {.kind = PlainColumns::Kind::all, .name = {}};
    if (begin >= end || !is_identifier(begin)) return {};
    std::size_t behind = begin + 1;
    if (behind < end && is_word(behind, "as")) ++behind;
    if (behind < end && is_identifier(behind)) ++behind;
    if (behind != end) return {};
    return {.kind = PlainColumns::Kind::column, .name = tokens_[begin].text};
  }

  const Tokens tokens_;
  Dialect dialect_;
  std::string called_;  // the qualifier of the table's columns
  PlainColumns found_;
};

bool is_never_null(const TableColumn& column) { return column.not_null || column.row_id; }

}  // namespace

std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect) {
  return is_odd(statement) ? std::nullopt : PlainColumnsReader(statement, dialect).read();
}

core::Task<std::vector<bool>> never_null(Database& database, Dialect dialect, std::string statement,
                                         std::vector<Column> columns) {
  const auto plain = plain_columns(statement, dialect);
  if (!plain) co_return std::vector<bool>();
  const auto table = co_await describe_table(database, dialect, plain->table);
  if (!table) co_return std::vector<bool>();
  std::vector<bool> result;
  for (const PlainColumns::Item& item : plain->items) {
    if (item.kind == PlainColumns::Kind::all) {
      for (const TableColumn& column : table->columns) {
        if (result.size() == columns.size() || columns[result.size()].name != column.name)
          co_return std::vector<bool>();
        result.push_back(is_never_null(column));
      }
      continue;
    }
    const auto column = std::ranges::find_if(table->columns, [&](const TableColumn& one) {
      const auto folded = [&](char c) { return dialect == Dialect::sqlite ? to_lower(c) : c; };
      return std::ranges::equal(one.name, item.name, {}, folded, folded);
    });
    result.push_back(item.kind == PlainColumns::Kind::column && column != table->columns.end() &&
                     is_never_null(*column));
  }
  if (result.size() != columns.size()) result.clear();
  co_return result;
}

}  // namespace sluice::sql
