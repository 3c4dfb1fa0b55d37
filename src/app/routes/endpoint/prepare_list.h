#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/endpoint.h"
#include "api/list/plan.h"
#include "app/config/source.h"
#include "app/prepare/loop.h"
#include "sql/database.h"
#include "sql/plain_columns.h"

namespace sluice::app {

// Prepares [endpoint.list]: has the database say what each named column can be asked.
class ListPreparation {
 public:
  // Advice of `sluice check`: lines about indexes, and about conditions that cannot be pushed down.
  struct Advice {
    std::vector<std::string> warnings;
    std::vector<std::string> hints;
  };

  // `get`: the prepared plan of the endpoint. `facts`: of its columns; empty if nothing is known. All arguments outlive
  // this object.
  ListPreparation(Loop& loop, sql::Database& database, sql::Dialect dialect, const api::EndpointOptions& endpoint,
                  const api::EndpointPlan& get, std::vector<sql::ColumnFacts> facts,
                  std::vector<config::Diagnostic>& errors)
      : loop_(loop),
        database_(database),
        endpoint_(endpoint),
        options_(*endpoint.list),
        get_(get),
        facts_(std::move(facts)),
        errors_(errors),
        made_(std::make_shared<api::list::Plan>()) {
    made_->dialect = dialect;
  }

  // If errors were reported, the result is incomplete. Fails only if the database became unreachable.
  [[nodiscard]] sql::Result<std::shared_ptr<const api::list::Plan>> prepare();
  // After prepare(), if it reported no errors. A database that does not answer gives no advice.
  [[nodiscard]] Advice advise();

 private:
  void add_columns();
  void check_filters();
  void read_labels();
  void check_sorts();
  void check_order();
  void check_search();
  void check_limits();
  void complain(Position position, const std::string& what, std::string hint = {});
  // The index of the column; reports an error and returns nothing if there is no such column.
  [[nodiscard]] std::optional<std::size_t> find(const Located<std::string>& name, std::string_view key);
  // Whether the database accepts the statement's rows with this condition or order: `list."a" = list."a"`.
  [[nodiscard]] bool accepts(const std::string& rest);
  [[nodiscard]] std::vector<bool> accepted(const std::vector<std::size_t>& columns, std::string_view sign,
                                           bool with_itself);
  [[nodiscard]] bool has_order(std::size_t column);
  [[nodiscard]] bool is_postgres() const { return made_->dialect == sql::Dialect::postgres; }
  [[nodiscard]] std::string written() const;
  [[nodiscard]] std::string subquery() const { return "SELECT 1 FROM (" + written() + "\n) AS list "; }
  [[nodiscard]] std::vector<std::string> plan_of(const std::string& statement);
  void warn_of_barriers(Advice& into);
  void look_for_indexes(Advice& into);
  [[nodiscard]] bool finds_by(const std::string& column, const std::vector<std::string>& all);

  Loop& loop_;
  sql::Database& database_;
  const api::EndpointOptions& endpoint_;
  const api::list::Options& options_;
  const api::EndpointPlan& get_;
  const std::vector<sql::ColumnFacts> facts_;
  std::vector<config::Diagnostic>& errors_;
  std::shared_ptr<api::list::Plan> made_;
  std::vector<sql::Parameter> declared_;
  bool all_sort_ = false;  // all columns of `sort` have an order
  std::optional<sql::Error> away_;
};

}  // namespace sluice::app
