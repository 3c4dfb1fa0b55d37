#include "sql/compared.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sql/tokens.h"

namespace sluice::sql {
namespace {

using Kind = Token::Kind;

// Behind these a name is a column's, and not what the value before it is called.
constexpr std::array<std::string_view, 27> before_value{
    "select", "distinct", "all",  "where",  "and",       "or",     "not",    "on",    "set",
    "having", "when",     "then", "else",   "case",      "by",     "in",     "like",  "glob",
    "is",     "between",  "from", "values", "returning", "escape", "offset", "limit", "replace"};
// Behind the FROM list, the SET list or WHERE.
constexpr std::array<std::string_view, 7> next_clause{"where", "group",  "having",   "order",
                                                      "limit", "window", "returning"};
constexpr std::array<std::string_view, 7> of_joins{"natural", "left", "right", "full", "inner", "cross", "join"};
constexpr std::array<std::string_view, 7> no_columns{
    "not", "null", "true", "false", "current_date", "current_time", "current_timestamp"};
// With these, a statement may mean something else by a name than it seems.
constexpr std::array<std::string_view, 5> not_read{"with", "union", "except", "intersect", "explain"};

template <std::size_t size>
bool is_among(const std::array<std::string_view, size>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

class Reader {
 public:
  explicit Reader(std::string_view sql) : tokens_(sql) {}

  std::vector<Compared> read(Mentions wanted) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == Kind::word && is_among(not_read, tokens_[i].text)) return {};
    }
    if (is_word(0, "select")) {
      read_select();
    } else if (is_word(0, "delete") && is_word(1, "from")) {
      if (const auto at = take_table(2)) read_where(*at);
    } else if (is_word(0, "update")) {
      read_update();
    } else if (is_word(0, "insert") || is_word(0, "replace")) {
      read_insert();
    }
    std::erase_if(found_, [&](const Compared& one) {
      return is_alias(one.column) || (wanted == Mentions::one && mentions(one.parameter) != 1);
    });
    return std::move(found_);
  }

 private:
  struct FromItem {
    std::string called;  // what columns are qualified with
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
  // Of what ends a list or a clause.
  [[nodiscard]] bool is_end(std::size_t i) const {
    return tokens_[i].kind == Kind::end || is_sign(i, ";") || is_word_of(i, next_clause);
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
  // Whether a result may be called that: a name or a literal that stands behind AS, or behind a value.
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

  void read_select() {
    std::size_t at = 1;
    while (!is_word(at, "from")) {
      if (is_end(at)) return;
      at = skip(at);
    }
    if (const auto end = take_from(at + 1)) read_where(*end);
  }
  // UPDATE t SET a = ?1 FROM u WHERE ...
  void read_update() {
    const auto set = take_table(is_word(1, "or") ? 3 : 1);
    if (!set || !is_word(*set, "set")) return;
    std::size_t at = *set;
    do {
      ++at;
      if (is_identifier(at) && is_sign(at + 1, "=") && tokens_[at + 2].kind == Kind::parameter &&
          (is_sign(at + 3, ",") || is_word(at + 3, "from") || is_end(at + 3))) {
        add(at + 2, tokens_[at].text, {from_[0].table});
      }
      while (!is_sign(at, ",") && !is_word(at, "from") && !is_end(at)) at = skip(at);
    } while (is_sign(at, ","));
    if (is_word(at, "from")) {
      const auto end = take_from(at + 1);
      if (!end) return;
      at = *end;
    }
    read_where(at);
  }
  // INSERT INTO t (a, b) VALUES (?1, ?2), (...)
  void read_insert() {
    std::size_t at = is_word(1, "or") ? 3 : 1;
    if (!is_word(at, "into")) return;
    const auto open = take_table(at + 1);
    if (!open || !is_sign(*open, "(")) return;
    std::vector<std::string> columns;
    for (at = *open + 1; is_identifier(at); at += 2) {
      columns.push_back(tokens_[at].text);
      if (!is_sign(at + 1, ",")) break;
    }
    if (!is_sign(at + 1, ")") || !is_word(at + 2, "values")) return;
    for (at += 3; is_sign(at, "("); ++at) {
      std::size_t column = 0;
      ++at;
      while (at < tokens_.size() && !is_sign(at, ")")) {
        const bool is_first = is_sign(at - 1, "(") || is_sign(at - 1, ",");
        if (is_first && tokens_[at].kind == Kind::parameter && column < columns.size() &&
            (is_sign(at + 1, ",") || is_sign(at + 1, ")"))) {
          add(at, columns[column], {from_[0].table});
        }
        if (is_sign(at, ",")) ++column;
        at = skip(at);
      }
      if (!is_sign(++at, ",")) return;
    }
  }

  // `t`, `main.t`, `t AS a`, `t a`. Nothing: it is something else; else what is behind it.
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
    static constexpr std::array<std::string_view, 7> others{"on", "using", "set", "from", "indexed", "not", "values"};
    return tokens_[at].kind == Kind::word && !is_word_of(at, of_joins) && !is_word_of(at, others) && !is_end(at);
  }
  // A list of tables alone. Nothing: there is something else in it; else what is behind it.
  [[nodiscard]] std::optional<std::size_t> take_from(std::size_t at) {
    for (;;) {
      const auto end = take_table(at);
      if (!end || is_sign(*end, "(")) return std::nullopt;  // a function
      at = *end;
      while (is_word(at, "on") || is_word(at, "using")) {
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
    bool in_between = false;  // whose AND joins nothing
    bool whole = true;
    std::size_t first = begin;
    for (std::size_t i = begin; i <= end; i = i < end ? skip(i) : i + 1) {
      if (i < end && is_word(i, "between")) in_between = true;
      if (i < end && !is_word(i, "and")) continue;
      if (i < end && std::exchange(in_between, false)) {
        whole = false;
        continue;
      }
      if (std::exchange(whole, true)) read_condition(first, i);
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
    // Of another parameter this would say that it may stand for anything.
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
      // Of several, one may be there to mean nothing.
      if (end == comparison + 4) take_pair(begin, comparison + 2);
      return;
    }
    if (!is_sign(comparison, "=") && !is_sign(comparison, "==") && !is_word(comparison, "is")) return;
    if (behind_operand(comparison + 1) != end) return;
    take_pair(begin, comparison + 1);
    take_pair(comparison + 1, begin);
  }
  // `a`, `t.a`, `main.t.a`, `?1`, and these in parentheses. `i` itself: it is something else.
  [[nodiscard]] std::size_t behind_operand(std::size_t i) const {
    if (is_sign(i, "(")) {
      const std::size_t inner = behind_operand(i + 1);
      return inner != i + 1 && is_sign(inner, ")") ? inner + 1 : i;
    }
    if (tokens_[i].kind == Kind::parameter) return i + 1;
    if (!is_identifier(i) || is_word_of(i, no_columns)) return i;
    while (is_sign(i + 1, ".") && is_identifier(i + 2)) i += 2;
    return i + 1;
  }
  void take_pair(std::size_t column, std::size_t parameter) {
    while (is_sign(column, "(")) ++column;
    while (is_sign(parameter, "(")) ++parameter;
    if (tokens_[parameter].kind != Kind::parameter || !is_identifier(column)) return;
    std::string_view qualifier;
    for (; is_sign(column + 1, "."); column += 2) qualifier = tokens_[column].text;
    std::vector<std::string> tables;
    for (const FromItem& item : from_) {
      if (qualifier.empty() || item.called == qualifier) tables.push_back(item.table);
    }
    if (qualifier.empty() || tables.size() == 1) add(parameter, tokens_[column].text, std::move(tables));
  }
  void add(std::size_t parameter, std::string_view column, std::vector<std::string> tables) {
    const std::size_t number = number_of(parameter);
    if (number == 0) return;
    found_.push_back({.parameter = number - 1, .column = std::string(column), .tables = std::move(tables)});
  }

  const Tokens tokens_;
  std::vector<FromItem> from_;
  std::vector<Compared> found_;
};

}  // namespace

std::vector<Compared> compared_columns(std::string_view statement, Mentions mentions) {
  return Reader(statement).read(mentions);
}

}  // namespace sluice::sql
