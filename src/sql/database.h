#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "base/time.h"
#include "core/task.h"
#include "sql/parallel.h"
#include "sql/rows.h"
#include "sql/staging.h"
#include "sql/statement_ids.h"
#include "sql/transaction.h"

namespace sluice::sql {

enum class Dialect : std::uint8_t { postgres, sqlite };

// Classes of errors, by what the caller does about them.
enum class Failure : std::uint8_t {
  unavailable,   // no connection became free within the wait: 503 with Retry-After
  timed_out,     // the statement exceeded its deadline: 504
  bad_argument,  // a parameter's value does not fit its type (SQLSTATE class 22): 400
  statement,     // the database refused the statement: 500, logged; at prepare time a configuration error
  lost,          // the connection broke before the whole answer arrived; a write may have been committed or not
  conflict,      // a conflict with another transaction (SQLSTATE class 40): the transaction may be retried
  not_allowed,   // the settings of the transaction are refused, such as a role that the login may not take: 403
  too_large,     // the statement returned more than TransactionOptions::result_bytes: 422
};

// The constraint that a row violates, or the parameter with an invalid value, as far as the database reports it.
struct BrokenRule {
  std::string constraint;            // the constraint's name; for SQLite's UNIQUE: "films.slug"
  std::string table;                 // without its schema
  std::vector<std::string> columns;  // the constraint's columns
  std::uint32_t parameter = 0;       // 1-based: the parameter whose value does not fit its type; 0: unknown
};

struct Error {
  Failure failure{};
  std::string sqlstate;        // five characters; SQLite's codes are mapped to PostgreSQL's; empty if absent
  std::string message;         // the database's own text: for the log and for `sluice check`, never for a client
  std::uint32_t position = 0;  // 1-based character in the statement as it was written in the configuration; 0: unknown
  std::size_t headline = SIZE_MAX;           // bytes of `message` before its detail and its hint
  bool of_plan = false;                      // a conflict because a statement must be prepared again; see Retries
  bool at_commit = false;                    // all statements had succeeded; the commit failed
  std::shared_ptr<const BrokenRule> rule{};  // null: the database reports no such details
};

template <class T>
using Result = std::expected<T, Error>;

// Whether the code means that the server cannot work now: the connection is lost, the server lacks memory, space or
// connections, or it is starting or stopping. 53400 is excluded, because it reports a configured limit.
[[nodiscard]] constexpr bool means_outage(std::string_view sqlstate) {
  return sqlstate.starts_with("08") || sqlstate == "53000" || sqlstate == "53100" || sqlstate == "53200" ||
         sqlstate == "53300" || sqlstate == "57P01" || sqlstate == "57P02" || sqlstate == "57P03";
}

// The type that a parameter's text must have; this is checked before the text is bound. The text of a list is
// PostgreSQL's array literal, or a JSON array for SQLite, and each element is checked.
enum class ParameterType : std::uint8_t { text, integer, real, boolean, bytes, texts, integers, reals, booleans };

constexpr bool is_list(ParameterType type) { return type >= ParameterType::texts; }
constexpr ParameterType element_of(ParameterType type) {
  constexpr auto lists = static_cast<std::uint8_t>(ParameterType::texts);
  return is_list(type) ? static_cast<ParameterType>(static_cast<std::uint8_t>(type) - lists) : type;
}

struct Parameter {
  std::string name;                       // as written after the colon
  std::optional<ParameterType> declared;  // by the configuration; if absent, the database's own type decides
};

// One statement of the configuration: made once at start, immutable, shared by all cores.
struct Statement {
  StatementId id;
  std::shared_ptr<const void> holds_id;  // keeps `id` reserved; null: unnamed
  std::string text;                      // with the database's own placeholders ($1 or ?1)
  std::vector<Parameter> parameters;     // in placeholder order; a name that is used twice is one parameter
  // PostgreSQL: the OIDs that Parse sends, in placeholder order; 0, or an empty list: the server decides.
  std::vector<std::uint32_t> parameter_types;
  // PostgreSQL: the OIDs that the server has inferred, in placeholder order. SQLite: empty.
  std::vector<std::uint32_t> described_types;
  std::vector<std::shared_ptr<const Type>> described;  // the types of described_types
  std::vector<Column> columns;                         // as prepared; empty if the statement returns no rows
  // PostgreSQL: a query that fails (22012) if the attributes of a composite type in the columns or parameters are not
  // those that were prepared, because ALTER keeps the type's OID. Empty if there is no such type.
  std::string type_check{};
  bool has_composite_parameters = false;
  bool may_change_session = false;  // PostgreSQL: through a function; the session is then reset afterwards
  // PostgreSQL: the statement ends no transaction, and returns at most one row. If it is the only one of its transaction,
  // it is sent without BEGIN and COMMIT.
  bool may_fly = false;
  bool one_row = false;  // the caller wants one object, so two rows are enough to detect that there are too many
  std::optional<Parallel> parallel;  // set by Database::prepare_parallel()
};

// A parameter's value; NULL if `text` is absent. Always bound, never part of the SQL.
struct Argument {
  std::optional<std::string_view> text;
  ParameterType type = ParameterType::text;
};

// Pulls the rows of one running statement. Destroying the cursor before the last block cancels the statement.
class Cursor : public core::SlabAllocated {
 public:
  virtual ~Cursor() = default;
  // Returns the next rows. Views last until the next call, or until the caller suspends on anything else. Must not be
  // called again after a block with `last` or an error.
  [[nodiscard]] virtual core::Async<Result<Block>> next() = 0;
};

struct QueryOptions {
  // The first rows must arrive by then. Each later wait for the database may take as long as that first wait. The time
  // that the caller spends on the rows does not count. `never`: the database's own statement timeout applies.
  Instant deadline = never;
  // PostgreSQL only. The query runs in its own transaction with these settings, which takes one round trip. Read before
  // query() returns.
  std::span<const Setting> settings = {};
};

class Shapes;

// One core's access to a database: connections, caches, limits. Used on that core only.
//
// While the columns are those that were prepared, Block::columns is the statement's own list: its data() equals that of
// Statement::columns. When the columns change (`SELECT *` and ALTER TABLE), blocks have another list. Every such list
// lives, unchanged, as long as the Database and the statement. If the new columns equal an earlier list of the same
// statement, that list is used again. So a caller may cache what it derives from a list under the list's data(), and
// changes back and forth do not grow the cache. A statement that has lost all its columns fails as Failure::statement.
class Database {
 public:
  virtual ~Database() = default;

  // Parses and describes a statement whose placeholders are :name. Used at start and by `sluice check`.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare(std::string_view text,
                                                              std::span<const Parameter> declared) = 0;
  // Like prepare(), for a statement that query() reads on up to `reading.connections` connections. Each row of the
  // answer must come from one row of one table, and the statement must have the condition
  // `ctid >= :ctid_from AND ctid < :ctid_to`.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare_parallel(std::string_view text,
                                                                       std::span<const Parameter> declared,
                                                                       const ParallelReading& reading);
  // `arguments` are in the order of statement.parameters; their texts are copied before the first suspension.
  [[nodiscard]] virtual core::Async<Result<std::unique_ptr<Cursor>>> query(const Statement& statement,
                                                                           std::span<const Argument> arguments,
                                                                           const QueryOptions& options) = 0;
  // Prepares a statement of a transaction. It may write, and may have no columns. SQLite: requires that the database
  // was opened with its writer.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare_writing(std::string_view text,
                                                                      std::span<const Parameter> declared) = 0;
  // Databases that share `ids` give equal statements the same ids. Call it before the first statement is prepared.
  void share_ids(std::shared_ptr<StatementIds> ids) { ids_ = std::move(ids); }
  // Gives a new id to a statement that was changed after prepare().
  void give_id(Statement& statement) { ids_->give(statement); }
  // This core's generated statements.
  [[nodiscard]] virtual Shapes& shapes();
  // Sends nothing before the transaction's first statement.
  [[nodiscard]] virtual std::unique_ptr<Transaction> begin(const TransactionOptions& options) = 0;
  // Collects a set of rows first, and then writes it in one transaction. The arguments outlive the result.
  [[nodiscard]] virtual std::unique_ptr<Staging> stage(const SetPlan& plan, const TransactionOptions& options) = 0;
  // Checks that the database answers (one round trip).
  [[nodiscard]] virtual core::Task<Result<void>> ping(Instant deadline) = 0;
  // Announces that few more requests will come: idle connections close now, and busy ones when they become idle.
  virtual void retire() {}
  // From now on at most `pool` connections are open, and requests wait this long for one. If there are more, those that
  // are idle close, and the others close when they become idle.
  virtual void resize(std::uint32_t /*pool*/, Duration /*wait*/) {}
  // The metrics of this core.
  [[nodiscard]] virtual Readings readings() { return {}; }

 private:
  std::shared_ptr<StatementIds> ids_ = std::make_shared<StatementIds>();
  std::shared_ptr<Shapes> shapes_;  // null until the first use
};

}  // namespace sluice::sql
