#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/list/plan.h"
#include "api/query/query.h"
#include "sql/database.h"

namespace sluice::api::list {

// A value of a row's order, as a cursor has it.
struct CursorValue {
  std::optional<std::string> text;  // nullopt: NULL
  sql::ParameterType type = sql::ParameterType::text;
};

// Makes the statement of one request. Values of the client become arguments, never text.
class StatementText {
 public:
  enum class Direction : std::uint8_t { forward, backward };

  // `base`: the configured statement, with its arguments in `arguments`. All outlive this.
  StatementText(const Plan& plan, const sql::Statement& base, const query::Query& query,
                std::vector<sql::Argument>& arguments);

  // Writes the conditions. Call it first.
  [[nodiscard]] std::expected<void, query::Refused> add_conditions();
  // A hash of order, conditions and values.
  [[nodiscard]] std::uint64_t digest() const;
  // The rows behind, or in front of, the one with these values of keys().
  void add_cursor(std::span<const CursorValue> values, Direction direction);
  // The last rows of the list.
  void turn_around() { backward_ = true; }
  // Writes the statement, for at most `rows` rows. If `counts`, its last two columns are 1 in each row of the page, and
  // the number of all rows; then there is always a row.
  void finish(std::uint64_t rows, std::uint64_t offset, bool counts, std::string& text);

  // The order: that of the client, then that of the list.
  [[nodiscard]] const std::vector<query::Key>& keys() const { return keys_; }
  // The columns of the statement, as indices of the plan's: first those of the answer, then those of the order alone.
  [[nodiscard]] const std::vector<std::size_t>& columns() const { return columns_; }
  [[nodiscard]] std::size_t shown() const { return shown_; }
  // The columns of finish(), for Statement::columns.
  [[nodiscard]] std::vector<sql::Column> described(bool counts) const;
  // Of all rows that meet the conditions, for EXPLAIN.
  [[nodiscard]] std::string conditions_alone() const;

 private:
  void choose_columns();
  bool add(const query::Condition& condition);
  bool add_comparison(const query::Condition& condition);
  bool add_comparison(const query::Condition& condition, std::optional<sql::ColumnKind> as);
  bool add_by_class(const query::Condition& condition);
  bool add_value(std::size_t column, std::string_view value, std::optional<sql::ColumnKind> as);
  void add_words();
  void add_argument(std::string_view text, sql::ParameterType type = sql::ParameterType::text);
  void add_owned(std::string text, sql::ParameterType type = sql::ParameterType::text);
  void begin_condition() { where_ += where_.empty() ? " WHERE " : " AND "; }
  void add_key_order(std::string& into, std::string_view prefix, bool reversed) const;
  void add_behind(std::span<const CursorValue> values, std::size_t index);
  [[nodiscard]] bool compares_as_row(std::span<const CursorValue> values) const;
  void add_columns(std::string& into, std::string_view prefix, bool is_outermost) const;

  const Plan& plan_;
  const sql::Statement& base_;
  const query::Query& query_;
  std::vector<sql::Argument>& arguments_;
  std::vector<query::Key> keys_;
  std::vector<std::size_t> columns_;
  std::size_t shown_ = 0;
  std::string where_;   // with its WHERE; empty: no condition
  std::string behind_;  // the cursor's condition, without WHERE or AND
  bool backward_ = false;
  std::string scratch_;
  std::list<std::string> owned_;
  std::optional<query::Refused> refused_;
};

}  // namespace sluice::api::list
