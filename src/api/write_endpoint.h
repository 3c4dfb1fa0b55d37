#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/body/row_reader.h"
#include "api/error_map.h"
#include "api/failures.h"
#include "api/negotiation.h"
#include "api/options.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/role.h"
#include "api/schema/row_check.h"
#include "api/source.h"
#include "api/upload.h"
#include "api/version.h"
#include "core/reactor.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/set/constraints.h"
#include "sql/set/table.h"

namespace sluice::api {

// The Location of what was created: "/films/{slug}", with columns of the statement's rows.
class LocationPattern {
 public:
  // An error is what is wrong, for the configuration's reader.
  [[nodiscard]] static std::expected<LocationPattern, std::string> parse(std::string_view text,
                                                                         std::span<const sql::Column> columns);
  // Of a block's first row; nothing where a value is NULL, or would lead elsewhere.
  [[nodiscard]] std::optional<std::string> of(const sql::Block& block) const;

 private:
  struct Part {
    std::string literal;
    std::optional<std::string> column{};  // whose value is behind the literal
  };
  std::string written_;
  std::vector<Part> parts_;
};

// Whether what the method does is to create, so that it answers 201.
[[nodiscard]] bool creates(http::Method method, const MethodOptions& options);

// A method that writes, made ready. Immutable, shared by all cores.
struct WritePlan {
  struct Step {
    sql::Statement statement;
    std::vector<Source> sources;  // in the order of the statement's parameters
  };

  // `statements`: those of `before`, with `updates_first` the one that replaces a row, and then the method's own;
  // prepared with declared_parameters().
  WritePlan(http::Method method, const EndpointOptions& endpoint, const MethodOptions& options,
            const http::Pattern& pattern, std::vector<sql::Statement> statements, bool updates_first = false);
  // What the columns of the table that the rows are written to make of values.
  void take_types(const sql::Table& table);
  [[nodiscard]] std::string_view credential() const;                       // as for log_text()
  [[nodiscard]] std::vector<std::span<const Source>> all_sources() const;  // of all statements
  // Whose values these take, for answers to what the database refuses.
  [[nodiscard]] Failed failed() const;
  [[nodiscard]] bool may_miss() const { return object && !inserts; }  // where it finds no row: 404
  [[nodiscard]] bool takes_body() const { return !shape.names.empty() || !uploads.empty(); }

  std::string path;
  http::Method method{};
  sql::FormatSet formats;
  bool object = false;   // `returns`: it answers with one object
  bool inserts = false;  // what it does is to create: 201
  // A body has exactly one row: `object`, or a PUT or PATCH of a table whose keys are not in the body, or `before`
  // takes values of the body.
  bool one_row = false;
  bool inserts_row = false;  // `main` inserts into a table: a row that it leaves out is refused
  bool must_do = false;      // of the transaction
  std::optional<Duration> timeout;
  sql::Isolation isolation{};
  std::uint32_t retries = 0;
  std::uint64_t body_limit = UINT64_MAX;  // bytes: 413
  std::uint64_t more_body = 0;            // by how much that is beyond the server's own
  RowLimits row_limits;
  std::vector<Step> before;
  std::optional<Step> update_first;  // where it finds nothing, `main` inserts
  Step main;
  Shape shape;  // of the body; without names, and without uploads, it is not read
  std::vector<Echo> echoes;
  UploadPlan uploads;
  std::optional<LocationPattern> location;
  Layouts rows_layouts;  // of the main statement's columns
  Layouts object_layouts;
  QueryNames query;
  std::shared_ptr<const RolePlan> role;                 // null: it runs as the login
  std::shared_ptr<const Guards> guards;                 // null: nothing is required
  std::shared_ptr<const ErrorMap> errors;               // null: codes are answered as ever
  std::shared_ptr<const sql::Constraints> constraints;  // of the database; null: none is known
  std::shared_ptr<const schema::Schema> schema;         // of each row; null: none
  std::shared_ptr<const CurrentRow> current;            // null: the endpoint has no `version`
  std::optional<Version> returned;                      // of the main statement's columns, where it is known from them
};

// One core's handler of a method that writes: reads the body's rows, runs the statements in one transaction, answers
// with what they return. The body is held in memory, at most WritePlan::body_limit; files that it brings are not: they
// go to their stores before the transaction begins, and stay there if it fails.
class WriteEndpoint final : public http::Handler {
 public:
  // Who tries again after a conflict: the endpoint, or, where its transaction is a part of another one, whose that is.
  enum class Retries : std::uint8_t { own, callers };

  // `stores`: of the plan's uploads, in their order; they outlive it.
  WriteEndpoint(std::shared_ptr<const WritePlan> plan, sql::Database& database, core::Reactor& reactor,
                TroubleLog* trouble = nullptr, std::vector<http::BlobStore*> stores = {},
                Retries retries = Retries::own)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()),
        stores_(std::move(stores)),
        retries_(retries) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Request& request) override;

 private:
  struct Rows;
  struct Outcome;

  [[nodiscard]] core::Task<http::Response> run(http::Request& request, Wish wish);
  [[nodiscard]] core::Task<sql::Result<Outcome>> write(const http::Request& request, const Conditions& conditions,
                                                       std::span<const sql::Setting> settings, Rows& rows);
  // An answer is a refusal, nothing is leave to go on; an error is the transaction's end.
  [[nodiscard]] core::Task<sql::Result<std::optional<http::Response>>> compare(const http::Request& request,
                                                                               const Conditions& conditions,
                                                                               sql::Transaction& transaction) const;
  [[nodiscard]] std::size_t broken_field(const sql::BrokenRule& rule, std::span<const Source> sources) const;
  [[nodiscard]] std::expected<void, ValueFault> bind_before(Binder& binder, const http::Request& request,
                                                            std::span<const Value> row) const;
  [[nodiscard]] http::Response answer(const http::Request& request, const Wish& wish, const Outcome& outcome) const;

  std::shared_ptr<const WritePlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failures_;
  std::vector<http::BlobStore*> stores_;
  const Retries retries_;
};

}  // namespace sluice::api
