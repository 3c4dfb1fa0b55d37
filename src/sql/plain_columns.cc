#include "sql/plain_columns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace sluice::sql {
namespace {

enum class Kind : std::uint8_t { word, quoted, sign, other };

struct Token {
  Kind kind{};
  std::string text;  // of a word in lower case; of a quoted identifier without its quotes
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

// Nothing: it has what is not read here, such as E'' and $$.
std::optional<std::vector<Token>> tokens_of(std::string_view sql) {
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < sql.size();) {
    const char c = sql[at];
    if (std::string_view(" \t\r\n\f\v").contains(c)) {
      ++at;
    } else if (sql.substr(at).starts_with("--")) {
      at = std::min(sql.find('\n', at), sql.size());
    } else if (sql.substr(at).starts_with("/*") || c == '$' || c == '`' || c == '[' || c == ';') {
      return std::nullopt;
    } else if (c == '\'' || c == '"') {
      if (at > 0 && is_name(sql[at - 1])) return std::nullopt;
      std::string text;
      for (++at;; ++at) {
        if (at >= sql.size()) return std::nullopt;
        if (sql[at] == c && (at + 1 == sql.size() || sql[at + 1] != c)) break;
        if (sql[at] == c) ++at;
        text += sql[at];
      }
      ++at;
      tokens.push_back({c == '"' ? Kind::quoted : Kind::other, std::move(text)});
    } else if (is_name(c)) {
      const std::size_t begin = at;
      while (at < sql.size() && (is_name(sql[at]) || (is_digit(c) && sql[at] == '.'))) ++at;
      tokens.push_back({is_digit(c) ? Kind::other : Kind::word, lower(sql.substr(begin, at - begin))});
    } else if (c == ':' && at + 1 < sql.size() && is_name(sql[at + 1]) && !is_digit(sql[at + 1])) {
      for (++at; at < sql.size() && is_name(sql[at]);) ++at;
      tokens.push_back({Kind::other, {}});
    } else {
      tokens.push_back({Kind::sign, std::string(1, c)});
      ++at;
    }
  }
  return tokens;
}

class Reader {
 public:
  Reader(std::span<const Token> tokens, Dialect dialect) : tokens_(tokens), dialect_(dialect) {}

  std::optional<PlainColumns> read() {
    constexpr std::array<std::string_view, 8> not_read{"with", "union", "except", "intersect",
                                                       "join", "group", "having", "distinct"};
    for (const Token& token : tokens_) {
      if (token.kind == Kind::word && std::ranges::find(not_read, token.text) != not_read.end()) return std::nullopt;
    }
    if (is_word(0, "select")) return read_select();
    if (is_word(0, "insert") && is_word(1, "into")) return read_returning(2);
    if (is_word(0, "update") && outer("from", 1) == tokens_.size()) return read_returning(1);
    if (is_word(0, "delete") && is_word(1, "from") && outer("using", 1) == tokens_.size()) return read_returning(2);
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool is_word(std::size_t i, std::string_view word) const {
    return i < tokens_.size() && tokens_[i].kind == Kind::word && tokens_[i].text == word;
  }
  [[nodiscard]] bool is_sign(std::size_t i, char sign) const {
    return i < tokens_.size() && tokens_[i].kind == Kind::sign && tokens_[i].text[0] == sign;
  }
  [[nodiscard]] bool is_identifier(std::size_t i) const {
    return i < tokens_.size() && (tokens_[i].kind == Kind::word || tokens_[i].kind == Kind::quoted);
  }
  // The next such word that is in no parentheses; the end, where there is none.
  [[nodiscard]] std::size_t outer(std::string_view word, std::size_t from) const {
    int depth = 0;
    for (std::size_t i = from; i < tokens_.size(); ++i) {
      if (is_sign(i, '(')) ++depth;
      if (is_sign(i, ')')) --depth;
      if (depth == 0 && is_word(i, word)) return i;
    }
    return tokens_.size();
  }
  [[nodiscard]] bool calls_between(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      if (is_sign(i, '(')) return true;
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
    // SQLite answers an aggregate without rows with a row of NULLs, whatever stands beside it.
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

  // Where what follows the table begins.
  std::optional<std::size_t> take_table(std::size_t i) {
    const auto usable = [&](std::size_t at) { return is_identifier(at) && !tokens_[at].text.contains('.'); };
    if (!usable(i)) return std::nullopt;
    called_ = found_.table = tokens_[i].text;
    if (!is_sign(i + 1, '.')) return i + 1;
    if (!usable(i + 2)) return std::nullopt;
    called_ = tokens_[i + 2].text;
    found_.table += "." + called_;
    return i + 3;
  }

  std::optional<PlainColumns> read_items(std::size_t begin, std::size_t end) {
    int depth = 0;
    for (std::size_t i = begin; i <= end; ++i) {
      if (i < end && is_sign(i, '(')) ++depth;
      if (i < end && is_sign(i, ')')) --depth;
      if (i < end && (depth != 0 || !is_sign(i, ','))) continue;
      found_.items.push_back(item(begin, i));
      begin = i + 1;
    }
    return std::move(found_);
  }

  // `name`, `table.name`, either with another name behind it; `*`, `table.*`.
  [[nodiscard]] PlainColumns::Item item(std::size_t begin, std::size_t end) const {
    if (end - begin > 2 && is_identifier(begin) && is_sign(begin + 1, '.')) {
      if (tokens_[begin].text != called_) return {};
      begin += 2;
    }
    if (begin + 1 == end && is_sign(begin, '*')) return {.kind = PlainColumns::Kind::all, .name = {}};
    if (begin >= end || !is_identifier(begin)) return {};
    std::size_t behind = begin + 1;
    if (behind < end && is_word(behind, "as")) ++behind;
    if (behind < end && is_identifier(behind)) ++behind;
    if (behind != end) return {};
    return {.kind = PlainColumns::Kind::column, .name = tokens_[begin].text};
  }

  std::span<const Token> tokens_;
  Dialect dialect_;
  std::string called_;  // what the table's columns are qualified with
  PlainColumns found_;
};

bool is_never_null(const TableColumn& column) { return column.not_null || column.row_id; }

}  // namespace

std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect) {
  const auto tokens = tokens_of(statement);
  if (!tokens) return std::nullopt;
  return Reader(*tokens, dialect).read();
}

core::Task<std::vector<bool>> never_null(Database& database, Dialect dialect, std::string statement,
                                         std::vector<Column> columns, std::uint32_t id) {
  const auto plain = plain_columns(statement, dialect);
  if (!plain) co_return std::vector<bool>();
  const auto table = co_await describe_table(database, dialect, plain->table, id);
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
      return dialect == Dialect::sqlite ? lower(one.name) == lower(item.name) : one.name == item.name;
    });
    result.push_back(item.kind == PlainColumns::Kind::column && column != table->columns.end() &&
                     is_never_null(*column));
  }
  if (result.size() != columns.size()) result.clear();
  co_return result;
}

}  // namespace sluice::sql
