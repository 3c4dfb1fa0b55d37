#include "sql/set/constraints.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"

namespace sluice::sql {
namespace {

// Returns one row for each column. Errors of a unique index look the same whether or not it has a constraint.
constexpr std::string_view postgres_constraints =
    "SELECT c.relname::text, k.name::text, a.attname::text FROM"
    " (SELECT conrelid AS rel, conname AS name, conkey::int2[] AS key FROM pg_constraint"
    "  WHERE conrelid <> 0 AND contype IN ('c', 'f', 'x')"
    "  UNION ALL SELECT i.indrelid, x.relname, (i.indkey::int2[])[0:(i.indnkeyatts - 1)] FROM pg_index i"
    "  JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indisunique) AS k"
    " JOIN pg_class c ON c.oid = k.rel"
    " JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname NOT IN ('pg_catalog', 'pg_toast', "
    "'information_schema')"
    " JOIN pg_attribute a ON a.attrelid = k.rel AND a.attnum = ANY (k.key)"
    " ORDER BY k.rel, k.name, a.attnum";
constexpr std::string_view sqlite_tables =
    "SELECT name, sql, '' FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%CHECK%'";

bool is_check_name_start(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

// Splits SQL into names, parentheses and other tokens; comments are skipped.
class CheckTokens {
 public:
  explicit CheckTokens(std::string_view text) : text_(text) {}

  enum class Kind : std::uint8_t { name, open, close, other };
  struct Token {
    Kind kind{};
    std::string text;   // for a name: its text without quotes
    bool word = false;  // an unquoted name, which may be a keyword
  };
  [[nodiscard]] std::optional<Token> next() {
    skip();
    if (at_ == text_.size()) return std::nullopt;
    const char c = text_[at_];
    if (is_check_name_start(c)) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && (is_check_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '$'))
        ++at_;
      return Token{.kind = Kind::name, .text = std::string(text_.substr(begin, at_ - begin)), .word = true};
    }
    if (c == '"' || c == '`' || c == '[') return Token{.kind = Kind::name, .text = quoted(c == '[' ? ']' : c)};
    if (c == '\'') {
      (void)quoted(c);
      return Token{.kind = Kind::other, .text = {}};
    }
    ++at_;
    return Token{.kind = c == '(' ? Kind::open : c == ')' ? Kind::close : Kind::other, .text = {}};
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  void skip() {
    for (;;) {
      while (at_ < text_.size() && std::string_view(" \t\r\n").contains(text_[at_])) ++at_;
      const std::string_view rest = text_.substr(at_);
      const bool line = rest.starts_with("--");
      if (!line && !rest.starts_with("/*")) return;
      const auto end = rest.find(line ? "\n" : "*/", 2);
      at_ = end == rest.npos ? text_.size() : at_ + end + (line ? 1 : 2);
    }
  }
  std::string quoted(char end) {
    std::string name;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] != end) {
        name += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == end) {
        name += text_[at_++];
      } else {
        ++at_;
        break;
      }
    }
    return name;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::span<const std::string> Constraints::columns_of(std::string_view table, std::string_view name) const {
  const Constraint* found = nullptr;
  for (const Constraint& one : all_) {
    if (one.name != name || (!table.empty() && one.table != table)) continue;
    if (found != nullptr && found->columns != one.columns) return {};
    found = &one;
  }
  return found != nullptr ? std::span<const std::string>(found->columns) : std::span<const std::string>{};
}

std::span<const std::string> broken_columns(const BrokenRule& rule, const Constraints* known) {
  if (!rule.columns.empty() || known == nullptr || rule.constraint.empty()) return rule.columns;
  return known->columns_of(rule.table, rule.constraint);
}

std::vector<std::string> names_in(std::string_view expression) {
  std::vector<std::string> names;
  CheckTokens tokens(expression);
  while (auto token = tokens.next()) {
    if (token->kind == CheckTokens::Kind::name) names.push_back(std::move(token->text));
  }
  return names;
}

std::vector<Constraints::Constraint> named_checks(std::string_view table, std::string_view create) {
  std::vector<Constraints::Constraint> checks;
  CheckTokens tokens(create);
  std::optional<std::string> name;  // the name after CONSTRAINT
  for (auto token = tokens.next(); token; token = tokens.next()) {
    if (token->word && equal_ignoring_case(token->text, "constraint")) {
      auto named = tokens.next();
      if (named && named->kind == CheckTokens::Kind::name) name = std::move(named->text);
      continue;
    }
    if (!name) continue;
    if (!token->word || !equal_ignoring_case(token->text, "check")) {
      name.reset();
      continue;
    }
    const std::size_t begin = tokens.at();
    std::size_t depth = 0;
    while (auto inner = tokens.next()) {
      if (inner->kind == CheckTokens::Kind::open) ++depth;
      if (inner->kind == CheckTokens::Kind::close && --depth == 0) break;
      if (depth == 0) break;
    }
    checks.push_back({.table = std::string(table),
                      .name = *std::exchange(name, std::nullopt),
                      .columns = names_in(create.substr(begin, tokens.at() - begin))});
  }
  return checks;
}

core::Task<Result<std::shared_ptr<const Constraints>>> read_constraints(Database& database, Dialect dialect) {
  const bool postgres = dialect == Dialect::postgres;
  auto statement = co_await database.prepare(postgres ? postgres_constraints : sqlite_tables, {});
  if (!statement) co_return std::unexpected(std::move(statement.error()));
  auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(std::move(cursor.error()));
  std::vector<Constraints::Constraint> all;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      if (!postgres) {
        for (auto& check : named_checks(row[0].view(), row[1].view())) all.push_back(std::move(check));
      } else if (!all.empty() && all.back().table == row[0].view() && all.back().name == row[1].view()) {
        all.back().columns.emplace_back(row[2].view());
      } else {
        all.push_back({.table = std::string(row[0].view()),
                       .name = std::string(row[1].view()),
                       .columns = {std::string(row[2].view())}});
      }
    }
  }
  co_return std::make_shared<const Constraints>(std::move(all));
}

}  // namespace sluice::sql
