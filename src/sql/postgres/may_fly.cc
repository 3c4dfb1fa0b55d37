#include "sql/postgres/may_fly.h"

#include <algorithm>
#include <array>

#include "sql/tokens.h"

namespace sluice::sql::postgres {
namespace {

// Whether no function that may return several rows is called between these tokens. The words are functions that do not,
// and types.
bool calls_harmless(const Tokens& tokens, std::size_t begin, std::size_t end) {
  constexpr std::array<std::string_view, 30> words{
      "values",  "cast",     "coalesce", "nullif", "greatest", "least",     "now",     "nextval",   "gen_random_uuid",
      "lower",   "upper",    "trim",     "and",    "or",       "not",       "when",    "then",      "else",
      "case",    "in",       "bpchar",   "float",  "numeric",  "character", "varying", "timestamp", "time",
      "varchar", "interval", "decimal"};
  for (std::size_t i = begin; i < end; ++i) {
    if (!tokens.is_identifier(i) || !tokens.is_sign(i + 1, "(")) continue;
    if (tokens[i].kind == Token::Kind::quoted || std::ranges::find(words, tokens[i].text) == words.end()) return false;
  }
  return true;
}

// INSERT INTO name (columns) ... VALUES (row), without another row.
bool inserts_one_row(const Tokens& tokens) {
  if (!tokens.is_word(0, "insert")) return false;
  for (std::size_t i = 1; i < tokens.size(); i = tokens.skip(i)) {
    if (tokens.is_word(i, "select") || tokens.is_word(i, "table") || tokens.is_word(i, "with")) return false;
    if (!tokens.is_word(i, "values")) continue;
    const std::size_t behind = tokens.skip(i + 1);
    return tokens.is_sign(i + 1, "(") && calls_harmless(tokens, i, behind) &&
           (behind == tokens.size() || tokens.is_word(behind, "returning") || tokens.is_word(behind, "on"));
  }
  return false;
}

}  // namespace

bool may_fly(std::string_view sql, bool has_columns) {
  constexpr std::array<std::string_view, 6> words{"insert", "update", "delete", "merge", "select", "with"};
  const Tokens tokens(sql);
  if (has_columns) return inserts_one_row(tokens);
  return std::ranges::any_of(words, [&](std::string_view word) { return tokens.is_word(0, word); });
}

}  // namespace sluice::sql::postgres
