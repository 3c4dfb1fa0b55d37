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

// What went wrong, by what the caller does about it.
enum class Failure : std::uint8_t {
  unavailable,   // no connection can be had within the wait: 503 with Retry-After
  timed_out,     // the statement ran into its deadline: 504
  bad_argument,  // a parameter's value does not fit its type (SQLSTATE class 22): 400
  statement,     // the database refused the statement: 500, logged; at prepare time a configuration error
  lost,          // the connection broke while the answer was on its way; what it was to write may be written or not
  conflict,      // another transaction was in the way (SQLSTATE class 40): the whole may be tried again
  not_allowed,   // the settings of the transaction are refused, such as a role that the login may not take: 403
};

// What the values of a row break, as far as the database tells.
struct BrokenRule {
  std::string constraint;            // its name; SQLite: of a unique one, "films.slug"
  std::string table;                 // without its schema
  std::vector<std::string> columns;  // those that it is about
  std::uint32_t parameter = 0;       // 1-based: the one whose value does not fit its type; 0: unknown
};

struct Error {
  Failure failure{};
  std::string sqlstate;        // five characters; SQLite's codes as PostgreSQL would say it; empty where there is none
  std::string message;         // the database's own words: for the log and for `sluice check`, never for a client
  std::uint32_t position = 0;  // 1-based character in the statement as it was written in the configuration; 0: unknown
  std::size_t headline = SIZE_MAX;           // bytes of `message` before its detail and its hint
  bool at_commit = false;                    // the statements had been done by then
  std::shared_ptr<const BrokenRule> rule{};  // null: the database says of none
};

template <class T>
using Result = std::expected<T, Error>;

// What a parameter's text is checked as before it is bound. Of a list each element is; its text is PostgreSQL's array
// literal, or JSON's array for SQLite.
enum class ParameterType : std::uint8_t { text, integer, real, boolean, bytes, texts, integers, reals, booleans };

constexpr bool is_list(ParameterType type) { return type >= ParameterType::texts; }
constexpr ParameterType element_of(ParameterType type) {
  constexpr auto lists = static_cast<std::uint8_t>(ParameterType::texts);
  return is_list(type) ? static_cast<ParameterType>(static_cast<std::uint8_t>(type) - lists) : type;
}

struct Parameter {
  std::string name;                       // as written after the colon
  std::optional<ParameterType> declared;  // by the configuration; else the database's own type decides
};

// One statement of the configuration: made once at start, immutable, shared by all cores.
struct Statement {
  StatementId id;
  std::shared_ptr<const void> holds_id;  // null: unnamed
  std::string text;                      // with the database's own placeholders ($1 or ?1)
  std::vector<Parameter> parameters;     // in placeholder order; a name that is used twice is one parameter
  // PostgreSQL: the OIDs that Parse names, in placeholder order; 0: the server decides. Empty: it decides all of them.
  std::vector<std::uint32_t> parameter_types;
  // PostgreSQL: the OIDs of what the server takes the parameters for, in placeholder order. SQLite: empty.
  std::vector<std::uint32_t> described_types;
  std::vector<std::shared_ptr<const Type>> described;  // those types
  std::vector<Column> columns;                         // as prepared; empty where the statement returns no rows
  bool may_change_session = false;   // PostgreSQL: reading it may, by a function; the session is reset behind it
  bool one_row = false;              // the caller asks for an object: more than two rows are never needed
  std::optional<Parallel> parallel;  // made by Database::prepare_parallel()
};

// A parameter's value; no text is NULL. Bound, never spliced.
struct Argument {
  std::optional<std::string_view> text;
  ParameterType type = ParameterType::text;
};

// The rows of one running statement, pulled. Destroying it before the last block cancels what is still running.
class Cursor : public core::SlabAllocated {
 public:
  virtual ~Cursor() = default;
  // The next rows; views last until the next call, or until the caller suspends on anything else. After a block with
  // `last`, or an error, it is not called again.
  [[nodiscard]] virtual core::Async<Result<Block>> next() = 0;
};

struct QueryOptions {
  // Until when the first rows must be there; each later wait for the database may take as long again. How long the
  // caller takes over the rows does not count. `never`: the database's own statement timeout holds.
  Instant deadline = never;
  // PostgreSQL only: for a transaction of its own, which begins, runs the query and ends in one round trip, on a
  // connection that nobody else uses meanwhile. Read before query() returns.
  std::span<const Setting> settings = {};
};

// One core's access to a database: connections, caches, limits. Used on that core only.
//
// Block::columns is the statement's own list (its data() is that of Statement::columns) for as long as the columns are
// those that were prepared. When they change (`SELECT *` and ALTER TABLE), blocks have another list. Every such list
// lives, unchanged, as long as the Database and the statement, and one that is equal to an earlier list of the same
// statement is that earlier one: what is made from a list may be kept by its data(), and changes back and forth do not
// add up. A statement that has lost all its columns fails as Failure::statement.
class Database {
 public:
  virtual ~Database() = default;

  // Parses and describes a statement whose placeholders are :name. At start and in `sluice check`.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare(std::string_view text,
                                                              std::span<const Parameter> declared) = 0;
  // As prepare(), for a statement that query() reads on up to `connections`. Refused where its rows are not those of
  // one table, each by itself, or where it does not say `ctid >= :ctid_from AND ctid < :ctid_to`.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare_parallel(std::string_view text,
                                                                       std::span<const Parameter> declared,
                                                                       const ParallelReading& reading);
  // `arguments` are in the order of statement.parameters; their texts are copied before the first suspension.
  [[nodiscard]] virtual core::Async<Result<std::unique_ptr<Cursor>>> query(const Statement& statement,
                                                                           std::span<const Argument> arguments,
                                                                           const QueryOptions& options) = 0;
  // A statement of a transaction: it may write, and need not return columns. SQLite: only where the database was opened
  // with its writer.
  [[nodiscard]] virtual core::Task<Result<Statement>> prepare_writing(std::string_view text,
                                                                      std::span<const Parameter> declared) = 0;
  // Before its first statement: databases that give equal statements the same ids, because they are one to the caller.
  void share_ids(std::shared_ptr<StatementIds> ids) { ids_ = std::move(ids); }
  // For a statement that is not as prepare() gave it.
  void give_id(Statement& statement) { ids_->give(statement); }
  // Nothing is sent before its first statement.
  [[nodiscard]] virtual std::unique_ptr<Transaction> begin(const TransactionOptions& options) = 0;
  // A set of rows that is gathered first, and then written in one transaction. What is given outlives it.
  [[nodiscard]] virtual std::unique_ptr<Staging> stage(const SetPlan& plan, const TransactionOptions& options) = 0;
  // Whether a statement could be answered now (a round trip).
  [[nodiscard]] virtual core::Task<Result<void>> ping(Instant deadline) = 0;
  // Few more requests will come: connections that are idle close, and so do others once they are.
  virtual void retire() {}
  // What this core has counted.
  [[nodiscard]] virtual Readings readings() { return {}; }

 private:
  std::shared_ptr<StatementIds> ids_ = std::make_shared<StatementIds>();
};

}  // namespace sluice::sql
