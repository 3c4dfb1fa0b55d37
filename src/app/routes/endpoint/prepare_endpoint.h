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
#include "api/table_sql.h"
#include "api/write_endpoint.h"
#include "app/config/values.h"
#include "app/prepare/preparation.h"
#include "sql/compared.h"
#include "sql/parameters.h"
#include "sql/plain_columns.h"

namespace sluice::app {

// A prepared [[endpoint]].
struct PreparedEndpoint {
  http::Pattern pattern;
  std::shared_ptr<const api::EndpointPlan> get;  // null: no GET
  std::vector<std::shared_ptr<const api::WritePlan>> writes;
  std::vector<std::shared_ptr<const api::SetWritePlan>> sets;
  std::vector<std::pair<http::Method, sql::Table>> tables;  // of the methods that name a table
  std::shared_ptr<const api::changes::Plan> changes;        // null: it does not publish changes
  // For [openapi]: by method, what is known about each column.
  std::vector<std::pair<http::Method, std::vector<sql::ColumnFacts>>> facts;
  std::shared_ptr<const std::vector<sql::EnumType>> enums;
};

// Has the database describe one [[endpoint]]: a statement or a table for each of its methods. Errors about them are
// reported with their places in the file.
class EndpointPreparation {
 public:
  // `database`: index in options.databases. All arguments outlive this object.
  EndpointPreparation(Preparation& preparation, const api::EndpointOptions& options, std::size_t database);

  // If errors were reported, the result has only the parts that could be prepared; it is empty if the path is invalid.
  // Fails only if the database became unreachable.
  [[nodiscard]] sql::Result<std::optional<PreparedEndpoint>> prepare();

 private:
  void prepare_get();
  void prepare_list(api::EndpointPlan& plan);
  void prepare_current_row();
  [[nodiscard]] bool reads_its_rows_alone();
  // If there is [openapi]: finds out what tables declare about the statement's columns.
  void learn_facts(http::Method method, std::string text, std::vector<sql::Column> columns);
  void prepare_changes();
  void prepare_method(http::Method method, const api::MethodOptions& writing);
  void prepare_table(http::Method method, const api::MethodOptions& writing);
  void warn_of_what_clients_choose(const api::Guards::Query& query, Position position);
  void warn_of_left_out(http::Method method, const api::MethodOptions& writing, const sql::Table& table);
  // `named`: the options as in the file, including columns that the method does not write.
  [[nodiscard]] bool check_row_statement(const Located<std::string>& text, const sql::SetOptions& set,
                                         const sql::Table& table);
  void prepare_set(http::Method method, const api::MethodOptions& writing, const api::MethodOptions& named,
                   const sql::Table& table);
  void prepare_statements(http::Method method, const api::MethodOptions& writing, const api::MethodOptions& named,
                          std::vector<Located<std::string>> texts, bool updates_first,
                          std::optional<api::PatchSql> patch = {});
  // The column of the table that the statements of a PATCH or PUT raise, because it is the endpoint's version; empty:
  // none.
  [[nodiscard]] std::string raised_version(http::Method method, const api::MethodOptions& writing,
                                           const sql::Table& table);
  // Reports an INSERT that cannot return the system columns that it names. `known`: its table; null if it is not known.
  void check_system_columns(const Located<std::string>& text, const sql::Table* known);
  [[nodiscard]] bool settle_uploads(api::WritePlan& plan, const api::MethodOptions& writing);
  void check_values();
  struct StoredColumn {
    std::string table;  // table and name are in lower case
    std::string name;   // empty: the column is not known
    std::string type;
    bool row_id = false;  // the column is an INTEGER PRIMARY KEY
    bool not_null = false;
    bool generated = false;
    sql::ColumnKind kind{};
  };
  [[nodiscard]] static core::Task<sql::Result<void>> read_columns(sql::Database& database, const sql::Statement& query,
                                                                  std::vector<StoredColumn>& into);
  void check_guards(const api::Guards* guards, std::span<const std::string> of_body, const api::MethodOptions& writing);
  // SQLite: the column that a parameter of a statement is compared with or stored in.
  struct Met {
    const StoredColumn* column = nullptr;  // null: not known
    sql::Compared::Use use = sql::Compared::Use::compared;
  };
  // In the order of the parameters.
  [[nodiscard]] std::vector<Met> met_columns(std::string_view statement, std::size_t parameters,
                                             sql::Mentions mentions);
  void read_stored();
  // The column with the name of `compared`; null if it is not known.
  [[nodiscard]] const StoredColumn* find_stored(const sql::Compared& compared) const;
  // Copy the known types of columns into the values to be checked, and into the sources that convert values.
  void take_columns(std::string_view statement, std::span<config::BoundValue> values);
  void take_kinds(std::string_view statement, std::span<api::Source> sources);
  // Add the values of an endpoint's guards and of `existing`, to be checked against what the database reports.
  void add_guards(const api::Guards& guards, std::vector<config::BoundValue>& values);
  void add_existing(const api::SetWritePlan& set, std::vector<config::BoundValue>& values);
  // Fills in the parts that all plans of writing methods have.
  template <class WritePlan>
  void complete(WritePlan& made, const api::MethodOptions& writing);
  // Adds the fields that a body may have but that are not written (`ignored`).
  template <class WritePlan>
  void take_unwritten_fields(WritePlan& made, const api::MethodOptions& writing);

  // The guards of the endpoint and of one of its methods. `method`: null for GET. Nothing if an error was reported.
  [[nodiscard]] std::optional<std::shared_ptr<const api::Guards>> guards_of(const api::MethodOptions* method,
                                                                            bool in_transaction);
  // Returns the database's description of a statement. If the database refused it, reports the error or sets `away_`,
  // and returns nothing.
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
  std::vector<std::string>& hints_;
  const bool advises_;
  const sql::Dialect dialect_;
  [[nodiscard]] sql::PlaceholderStyle style() const {
    return dialect_ == sql::Dialect::postgres ? sql::PlaceholderStyle::dollar : sql::PlaceholderStyle::question;
  }

  PreparedEndpoint made_;
  std::vector<sql::Parameter> declared_;
  std::shared_ptr<const api::RolePlan> role_;
  std::shared_ptr<const api::ErrorMap> error_map_;
  std::shared_ptr<const api::CurrentRow> current_;   // what writing methods compare; null: there is no version
  std::vector<std::string> used_;                    // names of parameters that statements use
  std::optional<std::vector<StoredColumn>> stored_;  // SQLite: columns of all tables; read when first needed
  std::vector<std::pair<http::Method, sql::Statement>> existing_;  // as written in the file
  bool whole_ = true;                                              // no statement was refused
  std::optional<sql::Error> away_;
};

}  // namespace sluice::app
