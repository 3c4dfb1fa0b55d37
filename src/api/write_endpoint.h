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
#include "api/password.h"
#include "api/patch_steps.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/role.h"
#include "api/schema/row_check.h"
#include "api/source.h"
#include "api/upload.h"
#include "api/version.h"
#include "core/reactor.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/server.h"
#include "sql/database.h"
#include "sql/set/constraints.h"
#include "sql/set/table.h"

namespace sluice::api {

// The Location of a created resource: "/films/{slug}", with columns of the returned row.
class LocationPattern {
 public:
  // An error says what is wrong with the text, for the operator.
  [[nodiscard]] static std::expected<LocationPattern, std::string> parse(std::string_view text,
                                                                         std::span<const sql::Column> columns);
  // The Location for a block's first row. Returns nullopt if a value is NULL or would lead to another path.
  [[nodiscard]] std::optional<std::string> of(const sql::Block& block) const;

 private:
  struct Part {
    std::string literal;
    std::optional<std::string> column{};  // the column whose value follows the literal
  };
  std::string written_;
  std::vector<Part> parts_;
};

// Whether the method creates a resource, so that it answers 201.
[[nodiscard]] bool creates(http::Method method, const MethodOptions& options);

// A prepared writing method. Immutable, shared by all cores.
struct WritePlan {
  using Step = WriteStep;

  // `statements`: those of `before`, then the one that replaces a row if `updates_first` is set, then the method's own.
  // All are prepared with declared_parameters().
  WritePlan(http::Method method, const EndpointOptions& endpoint, const MethodOptions& options,
            const http::Pattern& pattern, std::vector<sql::Statement> statements, bool updates_first = false);
  // Takes the types of the columns that are written, which decide how values are written.
  void take_types(const sql::Table& table);
  // Call it last. The statements are prepared from PatchSql::read and PatchSql::current.
  void take_patch(PatchSql sql, sql::Dialect dialect, sql::Statement read, std::optional<sql::Statement> current);
  [[nodiscard]] std::string_view credential() const;                       // as for log_text()
  [[nodiscard]] std::vector<std::span<const Source>> all_sources() const;  // of all statements
  // Where the statements' values come from. Decides the answer when the database refuses them.
  [[nodiscard]] Failed failed() const;
  [[nodiscard]] bool may_miss() const { return object && !inserts; }  // answers 404 if no row is found
  [[nodiscard]] bool takes_body() const { return !shape.names.empty() || !uploads.empty(); }

  std::string path;
  http::Method method{};
  sql::FormatSet formats;
  bool object = false;   // `returns`: the answer is one object
  bool inserts = false;  // it creates, so it answers 201
  // The body must have exactly one row. True for `object`, for a PUT or PATCH of a table whose keys are not in the
  // body, if `before` uses values of the body, and if a value is a password.
  bool one_row = false;
  bool has_password = false;
  bool inserts_row = false;  // `main` inserts into a table; if it skips a row, the request is refused
  bool must_do = false;      // see sql::TransactionOptions::must_do
  std::optional<Duration> timeout;
  sql::Isolation isolation{};
  std::uint32_t retries = 0;
  std::uint64_t body_limit = UINT64_MAX;  // bytes; a longer body gets a 413
  std::uint64_t more_body = 0;            // bytes by which body_limit exceeds the server's limit
  RowLimits row_limits;
  std::uint32_t most_rows = 0;  // of a body; more get a 413
  std::vector<Step> before;
  std::optional<Step> update_first;  // if it finds no row, `main` inserts
  Step main;
  std::optional<PatchPlan> patch;  // PATCH of a table: replaces `main` by the statement that a row requires
  Shape shape;                     // of the body, which is not read if there are neither names nor uploads
  std::vector<Echo> echoes;
  UploadPlan uploads;
  std::optional<LocationPattern> location;
  Layouts rows_layouts;  // for the columns of the main statement
  Layouts object_layouts;
  QueryNames query;
  std::shared_ptr<const RolePlan> role;                 // null if it runs as the login
  std::shared_ptr<const Guards> guards;                 // null if nothing is required
  std::shared_ptr<const ErrorMap> errors;               // null if codes get the default answers
  std::shared_ptr<const sql::Constraints> constraints;  // of the database; null if none are known
  std::shared_ptr<const schema::Schema> schema;         // of each row; null if absent
  std::shared_ptr<const CurrentRow> current;            // null if the endpoint has no `version`
  std::optional<Version> returned;                      // in the columns of the main statement; nullopt if they lack it
};

// One core's handler of a writing method: reads the body's rows, runs the statements in one transaction and answers
// with the returned rows. The body is held in memory, at most WritePlan::body_limit bytes. Uploaded files are written
// to their stores before the transaction begins, and stay there if it fails.
class WriteEndpoint final : public http::Handler {
 public:
  // Whether the endpoint retries after a conflict, or its caller, which then owns the transaction.
  enum class Retries : std::uint8_t { own, callers };

  // `stores`: the stores of the plan's uploads, in the same order. They outlive this. `hasher`: outlives this; null if
  // the plan has no password.
  WriteEndpoint(std::shared_ptr<const WritePlan> plan, sql::Database& database, core::Reactor& reactor,
                TroubleLog* trouble = nullptr, std::vector<http::BlobStore*> stores = {},
                Retries retries = Retries::own, PasswordHasher* hasher = nullptr)
      : plan_(std::move(plan)),
        database_(database),
        reactor_(reactor),
        failures_(plan_->path, trouble, plan_->errors.get(), plan_->credential()),
        stores_(std::move(stores)),
        retries_(retries),
        hasher_(hasher) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  struct Rows;
  struct Outcome;
  struct MergedRow;

  [[nodiscard]] core::Task<http::Response> run(http::Exchange& exchange, Preference preference);
  [[nodiscard]] core::Task<sql::Result<Outcome>> write(const http::Exchange& exchange, const Conditions& conditions,
                                                       std::span<const sql::Setting> settings, Rows& rows);
  // Returns the refusal, or nullopt if the write may go on. An error means that the transaction has failed.
  [[nodiscard]] core::Task<sql::Result<std::optional<http::Response>>> compare(const http::Exchange& exchange,
                                                                               const Conditions& conditions,
                                                                               sql::Transaction& transaction) const;
  // Merges the objects of a merge patch (RFC 7396) into the row's current values.
  [[nodiscard]] core::Task<sql::Result<void>> merge(const http::Exchange& exchange, std::span<const Value> row,
                                                    sql::Transaction& transaction, MergedRow& merged) const;
  void take_columns_of_main(sql::Written& written, Rows& rows) const;
  [[nodiscard]] std::size_t broken_field(const sql::BrokenRule& rule, std::span<const Source> sources) const;
  [[nodiscard]] std::expected<void, ValueFault> bind_before(Binder& binder, const http::Exchange& exchange,
                                                            std::span<const Value> row) const;
  [[nodiscard]] http::Response answer(const http::Request& request, const Preference& preference,
                                      const Outcome& outcome) const;

  std::shared_ptr<const WritePlan> plan_;
  sql::Database& database_;
  core::Reactor& reactor_;
  Failures failures_;
  std::vector<http::BlobStore*> stores_;
  const Retries retries_;
  PasswordHasher* const hasher_;
  PatchSteps patches_;
};

}  // namespace sluice::api
