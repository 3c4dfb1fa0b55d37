#include "sql/sqlite/json_results.h"

#include <algorithm>
#include <array>

#include "sql/tokens.h"

namespace sluice::sql::sqlite {
namespace {

using Kind = Token::Kind;

// json_extract() is not in the list, because it returns a JSON string as plain text.
constexpr std::array<std::string_view, 12> functions{
    "json",       "json_array",  "json_group_array", "json_group_object", "json_insert",  "json_object",
    "json_patch", "json_pretty", "json_quote",       "json_remove",       "json_replace", "json_set"};
constexpr std::array<std::string_view, 2> passing{"coalesce", "ifnull"};
constexpr std::array<std::string_view, 11> behind_list{"from",  "where", "group",     "having", "window", "order",
                                                       "limit", "union", "intersect", "except", "values"};

class JsonResultsReader {
 public:
  explicit JsonResultsReader(std::string_view sql) : tokens_(sql) {}

  std::vector<bool> read(std::size_t count) const {
    std::vector<bool> json(count);
    for (std::size_t i = 0; i < tokens_.size(); i = tokens_.skip(i)) {
      const bool select = tokens_.is_word(i, "select");
      if (!select && !tokens_.is_word(i, "returning")) continue;
      // INSERT INTO t SELECT ... RETURNING ...: the last list is what the statement returns.
      mark(i + 1, json);
      if (select && !is_insert()) break;
    }
    return json;
  }

 private:
  [[nodiscard]] bool is_insert() const { return tokens_.is_word(0, "insert") || tokens_.is_word(0, "replace"); }
  template <std::size_t size>
  [[nodiscard]] bool is_word_of(std::size_t i, const std::array<std::string_view, size>& words) const {
    return tokens_[i].kind == Kind::word && std::ranges::find(words, tokens_[i].text) != words.end();
  }
  [[nodiscard]] bool is_end(std::size_t i) const {
    return tokens_[i].kind == Kind::end || tokens_.is_sign(i, ";") || tokens_.is_sign(i, ")") ||
           is_word_of(i, behind_list);
  }
  [[nodiscard]] std::size_t item_end(std::size_t i) const {
    while (!is_end(i) && !tokens_.is_sign(i, ",")) i = tokens_.skip(i);
    return i;
  }

  // Marks the list that begins at `begin`. The number of columns that `*` stands for follows from the total.
  void mark(std::size_t begin, std::vector<bool>& json) const {
    if (tokens_.is_word(begin, "distinct") || tokens_.is_word(begin, "all")) ++begin;
    std::vector<bool> items;
    std::size_t star = SIZE_MAX;
    bool several = false;
    for (std::size_t i = begin;; ++i) {
      const std::size_t end = item_end(i);
      if (end > i && tokens_.is_sign(end - 1, "*") && (end == i + 1 || tokens_.is_sign(end - 2, "."))) {
        several |= star != SIZE_MAX;
        star = items.size();
      }
      items.push_back(is_json(i, end));
      i = end;
      if (!tokens_.is_sign(i, ",")) break;
    }
    json.assign(json.size(), false);
    const bool fits = star == SIZE_MAX ? items.size() == json.size() : !several && items.size() <= json.size() + 1;
    if (!fits) return;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i == star) continue;
      json[star == SIZE_MAX || i < star ? i : json.size() - (items.size() - i)] = items[i];
    }
  }

  // An expression, perhaps followed by an alias.
  [[nodiscard]] bool is_json(std::size_t begin, std::size_t end) const {
    if (end >= begin + 2 && tokens_.is_word(end - 2, "as")) {
      end -= 2;
    } else if (end >= begin + 2 && tokens_.is_identifier(end - 1) &&
               (tokens_.is_sign(end - 2, ")") || tokens_[end - 2].kind == Kind::literal)) {
      --end;
    }
    if (begin >= end) return false;
    if (tokens_.is_sign(begin, "(") && tokens_.skip(begin) == end) {
      if (!tokens_.is_word(begin + 1, "select")) return is_json(begin + 1, end - 1);
      std::size_t first = begin + 2;
      if (tokens_.is_word(first, "distinct")) ++first;
      return is_json(first, item_end(first));
    }
    if (tokens_.is_sign(begin + 1, "(") && (is_word_of(begin, functions) || is_word_of(begin, passing))) {
      const std::size_t behind = tokens_.skip(begin + 1);
      const bool whole = behind == end || tokens_.is_word(behind, "filter") || tokens_.is_word(behind, "over");
      if (!whole) return is_arrow(begin, end);
      return is_word_of(begin, functions) || is_json(begin + 2, item_end(begin + 2));
    }
    return is_arrow(begin, end);
  }
  // `doc -> '$.a'`, without an operator of lower precedence.
  [[nodiscard]] bool is_arrow(std::size_t begin, std::size_t end) const {
    bool arrow = false;
    for (std::size_t i = begin; i < end; i = tokens_.skip(i)) {
      if (tokens_[i].kind != Kind::sign || tokens_.is_sign(i, "(") || tokens_.is_sign(i, ".")) continue;
      arrow = tokens_.is_sign(i, "->");
      if (!arrow && !tokens_.is_sign(i, "->>")) return false;
    }
    return arrow;
  }

  const Tokens tokens_;
};

}  // namespace

std::vector<bool> json_results(std::string_view statement, std::size_t count) {
  return JsonResultsReader(statement).read(count);
}

}  // namespace sluice::sql::sqlite
