#include "sql/compared.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sql/tokens.h"

namespace sluice::sql {
namespace {

using Kind = Token::Kind;

// After one of these words a name is a column's name, not an alias of the preceding value.
constexpr std::array<std::string_view, 27> before_value{
    "select", "distinct", "all",  "where",  "and",       "or",     "not",    "on",    "set",
    "having", "when",     "then", "else",   "case",      "by",     "in",     "like",  "glob",
    "is",     "between",  "from", "values", "returning", "escape", "offset", "limit", "replace"};
// The words that end the FROM list, the SET list or WHERE.
constexpr std::array<std::string_view, 7> next_clause{"where", "group",  "having",   "order",
                                                      "limit", "window", "returning"};
constexpr std::array<std::string_view, 7> of_joins{"natural", "left", "right", "full", "inner", "cross", "join"};
constexpr std::array<std::string_view, 7> no_columns{
    "not", "null", "true", "false", "current_date", "current_time", "current_timestamp"};
// A statement with one of these words is not read, because its names may refer to something other than a table.
constexpr std::array<std::string_view, 5> not_read{"with", "union", "except", "intersect", "explain"};
constexpr std::array<std::string_view, 6> orders{"<", "<=", ">", ">=", "<>", "!="};

template <std::size_t size>
bool is_among(const std::array<std::string_view, size>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

class ComparedReader {
 public:
  ComparedReader(std::string_view sql, Mentions wanted) : tokens_(sql), any_(wanted == Mentions::any) {}

  std::vector<Compared> read() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (is_word_of(i, not_read)) return {};
    }
    if (is_word(0, "select")) {
      read_select(0, {});
    } else if (is_word(0, "delete") && is_word(1, "from")) {
      if (const auto at = take_table(2)) read_where(*at);
    } else if (is_word(0, "update")) {
      read_update();
    } else if (is_word(0, "insert") || is_word(0, "replace")) {
      read_insert();
    }
    std::erase_if(found_, [&](const Compared& one) {
      const bool is_sure = (one.use == Use::stored || one.use == Use::equal) && mentions(one.parameter) == 1;
      return (one.use >= Use::equal && is_alias(one.column)) || (!any_ && !is_sure);
    });
    return std::move(found_);
  }

 private:
  using Use = Compared::Use;
  struct Range {
    std::size_t begin, end;
  };
  struct FromItem {
    std::string called;  // the qualifier of its columns
    std::string table;
  };

  [[nodiscard]] bool is_identifier(std::size_t i) const { return tokens_.is_identifier(i); }
  [[nodiscard]] bool is_word(std::size_t i, std::string_view word) const { return tokens_.is_word(i, word); }
  [[nodiscard]] bool is_sign(std::size_t i, std::string_view sign) const { return tokens_.is_sign(i, sign); }
  [[nodiscard]] std::size_t skip(std::size_t i) const { return tokens_.skip(i); }
  template <std::size_t size>
  [[nodiscard]] bool is_word_of(std::size_t i, const std::array<std::string_view, size>& words) const {
    return tokens_[i].kind == Kind::word && is_among(words, tokens_[i].text);
  }
  // Whether the token ends a list or a clause.
  [[nodiscard]] bool is_end(std::size_t i) const {
    return tokens_[i].kind == Kind::end || is_sign(i, ";") || is_word_of(i, next_clause) ||
           (is_word(i, "on") && is_word(i + 1, "conflict"));
  }
  // The ranges between commas.
  [[nodiscard]] std::vector<Range> items(std::size_t begin, std::size_t end) const {
    std::vector<Range> found{{begin, begin}};
    for (std::size_t i = begin; i < end; i = skip(i)) {
      found.back().end = i;
      if (is_sign(i, ",")) found.push_back({i + 1, i + 1});
    }
    found.back().end = end;
    return found;
  }
  [[nodiscard]] std::size_t mentions(std::size_t parameter) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == Kind::parameter && number_of(i) == parameter + 1) ++count;
    }
    return count;
  }
  [[nodiscard]] std::size_t number_of(std::size_t i) const {
    const std::string& digits = tokens_[i].text;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc{} ? number : 0;
  }
  // Whether `name` may be an alias in the result: a name or a literal after AS or after a value.
  [[nodiscard]] bool is_alias(std::string_view name) const {
    for (std::size_t i = 1; i < tokens_.size(); ++i) {
      const Kind kind = tokens_[i].kind;
      if ((kind != Kind::word && kind != Kind::quoted && kind != Kind::literal) || tokens_[i].text != name) continue;
      const Token& before = tokens_[i - 1];
      const bool behind_value = before.kind == Kind::sign   ? before.text == ")"
                                : before.kind == Kind::word ? !is_among(before_value, before.text)
                                                            : true;
      if (behind_value) return true;
    }
    return false;
  }

  // SELECT ?1, a FROM ... `into`: the columns that the results are written to.
  void read_select(std::size_t at, std::span<const Compared> into) {
    const std::size_t begin = at + (is_word(at + 1, "distinct") || is_word(at + 1, "all") ? 2 : 1);
    for (at = begin; !is_word(at, "from") && !is_end(at);) at = skip(at);
    std::size_t column = 0;
    for (const auto [first, end] : items(begin, at)) {
      if (column == into.size() || is_sign(end - 1, "*")) break;
      take_stored(first, end, into[column++]);
    }
    if (!is_word(at, "from")) return read_where(at);
    if (const auto end = take_from(at + 1)) read_where(*end);
  }
  // UPDATE t SET a = ?1 FROM u WHERE ...
  void read_update() {
    const auto set = take_table(is_word(1, "or") ? 3 : 1);
    if (!set || !is_word(*set, "set")) return;
    std::size_t at = read_set(*set, from_[0].table);
    if (is_word(at, "from")) {
      const auto end = take_from(at + 1);
      if (!end) return;
      at = *end;
    }
    read_where(at);
  }
  // SET a = ?1, b = coalesce(?2, b). Returns the index after it.
  std::size_t read_set(std::size_t at, const std::string& table) {
    do {
      const std::size_t name = at + 1;
      for (++at; !is_sign(at, ",") && !is_word(at, "from") && !is_end(at);) at = skip(at);
      if (!is_identifier(name) || !is_sign(name + 1, "=")) continue;
      take_stored(name + 2, at, {.column = tokens_[name].text, .tables = {table}, .use = Use::stored});
    } while (is_sign(at, ","));
    return at;
  }
  // INSERT INTO t (a, b) VALUES (?1, ?2), (...) ON CONFLICT DO UPDATE SET a = ?1
  void read_insert() {
    std::size_t at = is_word(1, "or") ? 3 : 1;
    if (!is_word(at, "into")) return;
    const auto behind = take_table(at + 1);
    if (!behind) return;
    at = *behind;
    const std::string table = std::exchange(from_, {})[0].table;
    std::vector<Compared> columns;
    if (!any_ && (!is_sign(at, "(") || !is_word(skip(at), "values"))) return;
    if (is_sign(at, "(")) {
      for (const auto [name, end] : items(at + 1, skip(at) - 1)) {
        columns.push_back({.column = tokens_[name].text, .tables = {table}, .use = Use::stored});
      }
      at = skip(at);
    } else {
      // One entry for each value that the INSERT may have.
      for (std::size_t i = 0; i < tokens_.size(); ++i) {
        columns.push_back({.tables = {table}, .use = Use::stored, .position = i});
      }
    }
    if (is_word(at, "select")) read_select(at, columns);
    bool in_values = is_word(at, "values");
    for (++at; at < tokens_.size(); at = skip(at)) {
      in_values &= is_sign(at, "(") || is_sign(at, ",");
      if (in_values && is_sign(at, "(")) {
        std::size_t column = 0;
        for (const auto [begin, end] : items(at + 1, skip(at) - 1)) {
          if (column < columns.size()) take_stored(begin, end, columns[column++]);
        }
      } else if (any_ && is_word(at, "set") && is_word(at - 1, "update") && is_word(at - 2, "do")) {
        at = read_set(at, table);
      }
    }
  }
  // Records what is stored in `column`: ?1, coalesce(?1, a), or another expression.
  void take_stored(std::size_t begin, std::size_t end, Compared column) {
    while (is_sign(begin, "(") && skip(begin) == end) {
      ++begin;
      --end;
    }
    if (begin + 1 == end && tokens_[begin].kind == Kind::parameter) return add(begin, std::move(column));
    if ((!is_word(begin, "coalesce") && !is_word(begin, "ifnull")) || skip(begin + 1) != end) return;
    column.use = Use::chosen;
    for (const auto [first, last] : items(begin + 2, end - 1)) take_stored(first, last, column);
  }

  // Parses `t`, `main.t`, `t AS a` or `t a`. Returns the index after it, or nothing if the text is something else.
  [[nodiscard]] std::optional<std::size_t> take_table(std::size_t at) {
    if (!is_identifier(at)) return std::nullopt;
    if (is_sign(at + 1, ".")) {
      if (tokens_[at].text != "main" || !is_identifier(at + 2)) return std::nullopt;
      at += 2;
    }
    FromItem item{.called = tokens_[at].text, .table = tokens_[at].text};
    ++at;
    if (is_word(at, "as")) {
      if (tokens_[++at].kind == Kind::sign || tokens_[at].kind == Kind::end) return std::nullopt;
      item.called = tokens_[at++].text;
    } else if (is_alias_of_table(at)) {
      item.called = tokens_[at++].text;
    }
    if (is_word(at, "not") && is_word(at + 1, "indexed")) at += 2;
    if (is_word(at, "indexed") && is_word(at + 1, "by")) at += 3;
    from_.push_back(std::move(item));
    return at;
  }
  [[nodiscard]] bool is_alias_of_table(std::size_t at) const {
    if (tokens_[at].kind == Kind::quoted || tokens_[at].kind == Kind::literal) return true;
    static constexpr std::array<std::string_view, 9> others{"on",  "using",  "set",    "from",   "indexed",
                                                            "not", "values", "select", "default"};
    return tokens_[at].kind == Kind::word && !is_word_of(at, of_joins) && !is_word_of(at, others) && !is_end(at);
  }
  // Parses a list of only tables. Returns the index after it, or nothing if the list contains something else.
  [[nodiscard]] std::optional<std::size_t> take_from(std::size_t at) {
    for (;;) {
      const auto end = take_table(at);
      if (!end || is_sign(*end, "(")) return std::nullopt;  // a function
      at = *end;
      while (!is_end(at) && (is_word(at, "on") || is_word(at, "using"))) {
        ++at;
        while (!is_end(at) && !is_sign(at, ",") && !is_word_of(at, of_joins)) at = skip(at);
      }
      if (is_end(at)) return at;
      if (is_sign(at, ",")) {
        ++at;
        continue;
      }
      while (is_word_of(at, of_joins) || is_word(at, "outer")) ++at;
      if (!is_word(at - 1, "join")) return std::nullopt;
    }
  }

  void read_where(std::size_t at) {
    if (!is_word(at, "where")) return;
    std::size_t end = at + 1;
    while (!is_end(end)) end = skip(end);
    read_conjunction(at + 1, end);
  }
  // a AND b AND (c AND d)
  void read_conjunction(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i = skip(i)) {
      if (is_word(i, "or")) read_optional(begin, i, end);
      if (is_word(i, "or") || is_word(i, "case")) return;
    }
    bool in_between = false;  // between BETWEEN and its AND, which is not a conjunction
    std::size_t first = begin;
    for (std::size_t i = begin; i <= end; i = i < end ? skip(i) : i + 1) {
      if (i < end && is_word(i, "between")) in_between = true;
      if (i < end && !is_word(i, "and")) continue;
      if (std::exchange(in_between, false) && i < end) continue;
      read_condition(first, i);
      first = i + 1;
    }
  }
  // ?1 IS NULL OR a = ?1, in either order.
  void read_optional(std::size_t begin, std::size_t either, std::size_t end) {
    const auto is_null = [&](std::size_t from, std::size_t to) {
      return to - from == 3 && tokens_[from].kind == Kind::parameter && is_word(from + 1, "is") &&
             is_word(from + 2, "null");
    };
    const std::size_t known = found_.size();
    std::size_t tested = SIZE_MAX;
    if (is_null(begin, either)) {
      tested = number_of(begin) - 1;
      read_condition(either + 1, end);
    } else if (is_null(either + 1, end)) {
      tested = number_of(either + 1) - 1;
      read_condition(begin, either);
    }
    // Discard uses of other parameters: if the tested one is NULL, they may have any value.
    const auto others = std::ranges::remove_if(found_.begin() + static_cast<std::ptrdiff_t>(known), found_.end(),
                                               [&](const Compared& one) { return one.parameter != tested; });
    found_.erase(others.begin(), found_.end());
  }
  void read_condition(std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    if (is_sign(begin, "(") && skip(begin) == end) {
      read_conjunction(begin + 1, end - 1);
      return;
    }
    const std::size_t comparison = behind_operand(begin);
    if (is_word(comparison, "in") && is_sign(comparison + 1, "(") && skip(comparison + 1) == end) {
      // A longer list is not read: the client may fill one of its parameters with a value that matches nothing.
      if (end == comparison + 4) take_pair(begin, comparison + 2, Use::equal);
      return;
    }
    const std::size_t between = comparison + (is_word(comparison, "not") ? 1 : 0);
    if (is_word(between, "between")) {
      const std::size_t most = behind_operand(between + 1) + 1;
      if (!is_word(most - 1, "and") || behind_operand(most) != end) return;
      for (const std::size_t bound : {between + 1, most}) take_either(begin, bound, Use::compared);
      return;
    }
    const bool is_not = is_word(comparison, "is") && is_word(comparison + 1, "not");
    const bool is_equality = is_sign(comparison, "=") || is_sign(comparison, "==") || is_word(comparison, "is");
    const bool is_order = tokens_[comparison].kind == Kind::sign && is_among(orders, tokens_[comparison].text);
    const std::size_t other = comparison + (is_not ? 2 : 1);
    if ((!is_equality && !is_order) || behind_operand(other) != end) return;
    take_either(begin, other, is_equality && !is_not ? Use::equal : Use::compared);
  }
  // Parses `a`, `t.a`, `main.t.a`, `?1`, a literal, or one of these in parentheses. Returns the index after it, or `i`
  // if it is something else.
  [[nodiscard]] std::size_t behind_operand(std::size_t i) const {
    if (is_sign(i, "(")) {
      const std::size_t inner = behind_operand(i + 1);
      return inner != i + 1 && is_sign(inner, ")") ? inner + 1 : i;
    }
    if (tokens_[i].kind == Kind::parameter || tokens_[i].kind == Kind::literal) return i + 1;
    if (!is_identifier(i) || is_word_of(i, no_columns)) return i;
    while (is_sign(i + 1, ".") && is_identifier(i + 2)) i += 2;
    return i + 1;
  }
  void take_either(std::size_t one, std::size_t other, Use use) {
    take_pair(one, other, use);
    take_pair(other, one, use);
  }
  void take_pair(std::size_t column, std::size_t parameter, Use use) {
    while (is_sign(column, "(")) ++column;
    while (is_sign(parameter, "(")) ++parameter;
    if (tokens_[parameter].kind != Kind::parameter || !is_identifier(column)) return;
    std::string_view qualifier;
    for (; is_sign(column + 1, "."); column += 2) qualifier = tokens_[column].text;
    std::vector<std::string> tables;
    for (const FromItem& item : from_) {
      if (qualifier.empty() || item.called == qualifier) tables.push_back(item.table);
    }
    if (!qualifier.empty() && tables.size() != 1) return;
    add(parameter, {.column = tokens_[column].text, .tables = std::move(tables), .use = use});
  }
  void add(std::size_t parameter, Compared column) {
    const std::size_t number = number_of(parameter);
    if (number == 0) return;
    column.parameter = number - 1;
    found_.push_back(std::move(column));
  }

  const Tokens tokens_;
  const bool any_;
  std::vector<FromItem> from_;
  std::vector<Compared> found_;
};

}  // namespace

std::vector<Compared> compared_columns(std::string_view statement, Mentions mentions) {
  return ComparedReader(statement, mentions).read();
}

}  // namespace sluice::sql
