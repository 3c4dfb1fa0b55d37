#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/changes/handler.h"
#include "api/endpoint.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "app/config/values.h"
#include "app/routes/kind.h"
#include "sql/compared.h"
#include "sql/parameters.h"

namespace sluice::app {

// One [[endpoint]] made ready.
struct PreparedEndpoint {
  http::Pattern pattern;
  std::shared_ptr<const api::EndpointPlan> get;  // null: it has none
  std::vector<std::shared_ptr<const api::WritePlan>> writes;
  std::vector<std::shared_ptr<const api::SetWritePlan>> sets;
  std::vector<std::pair<http::Method, sql::Table>> tables;  // of the methods that name one
  std::shared_ptr<const api::changes::Plan> changes;        // null: it does not tell of any
  // For [openapi]: of methods' columns, whether they are never NULL.
  std::vector<std::pair<http::Method, std::vector<bool>>> never_null;
};

// Has one [[endpoint]] described by its database: a statement or a table for each of its methods. What is wrong with
// them becomes an error of the file, at its place.
class EndpointPreparation {
 public:
  // `database`: index in options.databases. All outlive this.
  EndpointPreparation(Preparation& preparation, const api::EndpointOptions& options, std::size_t database);

  // With what could be made of it, where there are complaints. An error is a database that is no longer there;
  // nothing is a path that is none.
  [[nodiscard]] sql::Result<std::optional<PreparedEndpoint>> prepare();

 private:
  void prepare_get();
  void prepare_current_row();
  [[nodiscard]] bool reads_its_rows_alone();
  // Where there is [openapi], which of the statement's columns are never NULL.
  void learn_never_null(http::Method method, std::string text, std::vector<sql::Column> columns);
  void prepare_changes();
  void prepare_method(http::Method method, const api::MethodOptions& writing);
  void prepare_table(http::Method method, const api::MethodOptions& writing);
  // `named`: as the file has them, with columns that are not written.
  void warn_of_left_out(http::Method method, const api::MethodOptions& writing, const sql::Table& table);
  void prepare_set(http::Method method, const api::MethodOptions& writing, const api::MethodOptions& named,
                   const sql::Table& table);
  void prepare_statements(http::Method method, const api::MethodOptions& writing, const api::MethodOptions& named,
                          std::vector<Located<std::string>> texts, bool updates_first);
  void settle_uploads(api::WritePlan& plan, const api::MethodOptions& writing);
  void check_values();
  struct StoredColumn {
    std::string table;  // both in lower case
    std::string name;   // empty: what it has is not known
    std::string type;
    bool row_id = false;  // it is an INTEGER PRIMARY KEY
    bool not_null = false;
  };
  [[nodiscard]] static core::Task<sql::Result<void>> read_columns(sql::Database& database, const sql::Statement& query,
                                                                  std::vector<StoredColumn>& into);
  void check_guards(const api::Guards* guards, std::span<const std::string> of_body, const api::MethodOptions& writing);
  // SQLite: the columns that a statement's parameters meet, in the order of the parameters; null: not known.
  [[nodiscard]] std::vector<const StoredColumn*> met_columns(std::string_view statement, std::size_t parameters,
                                                             sql::Mentions mentions);
  // What is known of them, for what checks values and for what converts them.
  void take_columns(std::string_view statement, std::span<config::BoundValue> values);
  void take_kinds(std::string_view statement, std::span<api::Source> sources);
  // Of the values of an endpoint's guards, and of `existing`, against what the database says of their statements.
  void add_guards(const api::Guards& guards, std::vector<config::BoundValue>& values);
  void add_existing(const api::SetWritePlan& set, std::vector<config::BoundValue>& values);
  // What methods that write have in common.
  template <class WritePlan>
  void complete(WritePlan& made, const api::MethodOptions& writing);
  // Fields that a body may have, and that are not written.
  template <class WritePlan>
  void take_unwritten_fields(WritePlan& made, const api::MethodOptions& writing);

  // Of the endpoint and of one of its methods, null is GET; nothing where it was complained about.
  [[nodiscard]] std::optional<std::shared_ptr<const api::Guards>> guards_of(const api::MethodOptions* method,
                                                                            bool in_transaction);
  // What the database said of a statement; nothing, and a complaint or the end of all this, where it refused it.
  [[nodiscard]] std::optional<sql::Statement> take(const Located<std::string>& text,
                                                   sql::Result<sql::Statement> statement);
  void refused(const Located<std::string>& text, const sql::Error& error);
  void complain(Position position, const std::string& what, std::string hint = {});

  Loop& loop_;
  const api::EndpointOptions& options_;
  const sql::DatabaseOptions& database_options_;
  sql::Database& database_;
  const Options& all_;
  const config::Source& source_;
  std::shared_ptr<const sql::Constraints>& constraints_;
  std::vector<config::Diagnostic>& errors_;
  std::vector<std::string>& warnings_;
  const sql::Dialect dialect_;
  [[nodiscard]] sql::PlaceholderStyle style() const {
    return dialect_ == sql::Dialect::postgres ? sql::PlaceholderStyle::dollar : sql::PlaceholderStyle::question;
  }

  PreparedEndpoint made_;
  std::vector<sql::Parameter> declared_;
  std::shared_ptr<const api::RolePlan> role_;
  std::shared_ptr<const api::ErrorMap> error_map_;
  std::shared_ptr<const api::CurrentRow> current_;   // what methods that write compare; null: there is no version
  std::vector<std::string> used_;                    // names of parameters that statements take
  std::optional<std::vector<StoredColumn>> stored_;  // SQLite: of all tables, once somebody asked
  std::vector<std::pair<http::Method, sql::Statement>> existing_;  // as the file has them
  bool whole_ = true;                                              // every statement was taken
  std::optional<sql::Error> away_;
};

}  // namespace sluice::app
