#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/endpoint.h"
#include "api/list/plan.h"
#include "api/list/statement.h"
#include "api/query/query.h"
#include "api/source.h"
#include "http/exchange.h"
#include "http/response.h"
#include "sql/shapes.h"

namespace sluice::api::list {

// One request for a page of a list: from its query string to the fields of its answer.
class Page {
 public:
  // The plan has a list, and outlives this.
  explicit Page(const EndpointPlan& plan) : plan_(plan), list_(*plan.list) {}
  Page(const Page&) = delete;

  // Makes the statement and writes its text. Returns the refusal if the request is invalid. The request outlives this.
  [[nodiscard]] std::optional<http::Response> read(const http::Exchange& exchange, std::string& text);

  [[nodiscard]] std::span<const sql::Argument> arguments() const { return arguments_; }
  [[nodiscard]] sql::Shape make_shape(std::string_view text) const;
  // A statement that explains that of this text, with the same arguments.
  [[nodiscard]] sql::Statement explained(std::string_view explain, std::string_view text) const;

  // PostgreSQL: whether explanation() is wanted, the statement that gives the planner's number of rows, with the first
  // of the arguments.
  [[nodiscard]] bool asks_planner() const {
    return query_.count == query::Count::estimated && list_.dialect == sql::Dialect::postgres;
  }
  [[nodiscard]] sql::Statement explanation() const;
  [[nodiscard]] std::span<const sql::Argument> explanation_arguments() const { return arguments().first(conditions_); }
  void take_explanation(std::string_view json);

  // Takes the rows of the statement. Between take() and the last use, the first block's views must be valid if it is
  // the last.
  void take(const sql::Block& block);
  // The rows of the answer, with the first `shown` columns of the shape.
  [[nodiscard]] sql::Block rows();
  // Sets the status and the fields about the page.
  void describe(http::Response& response) const;

 private:
  [[nodiscard]] bool counts() const { return query_.count != query::Count::none && !asks_planner(); }
  [[nodiscard]] sql::Statement explaining(std::string text, std::size_t arguments, std::uint32_t column_type) const;
  void read_fields(const http::Request& request);
  [[nodiscard]] std::optional<http::Response> read_bounds();
  [[nodiscard]] std::optional<http::Response> read_cursor();
  void settle();
  [[nodiscard]] std::string cursor_of(std::size_t row) const;
  [[nodiscard]] std::string links() const;
  void append_own_query(std::string& to) const;
  // The place of a row of the answer among those of the statement.
  [[nodiscard]] std::size_t place_of(std::size_t row) const { return backward_ ? row_count_ - 1 - row : row; }

  const EndpointPlan& plan_;
  const Plan& list_;
  std::string_view query_text_;
  query::Query query_;
  bool has_range_ = false;      // from the field Range
  bool prefers_count_ = false;  // from the field Prefer
  std::uint64_t limit_ = 0;
  std::uint64_t offset_ = 0;
  bool backward_ = false;
  bool from_end_ = false;  // the last page: backward without a cursor
  std::uint64_t digest_ = 0;
  Binder binder_;
  std::vector<sql::Argument> arguments_;
  std::size_t conditions_ = 0;  // arguments of the configured statement and of the conditions
  std::optional<StatementText> statement_;

  std::span<const sql::Column> columns_;
  std::span<const sql::Field> fields_;  // of all rows, in the order of the statement
  std::vector<sql::Field> kept_;        // those of several blocks
  std::vector<std::unique_ptr<char[]>> copies_;
  std::size_t row_count_ = 0;  // of the answer
  bool has_more_ = false;      // there is one more row in the direction of the page
  bool is_settled_ = false;
  std::vector<sql::Field> shown_;
  std::optional<std::uint64_t> total_;
};

}  // namespace sluice::api::list
