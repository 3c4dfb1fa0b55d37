#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "msg/context.h"
#include "msg/service.h"
#include "sql/database.h"

namespace sluice::services {

// The value of a statement's parameter, as a text that the database converts.
struct Value {
  Value(std::string_view of, std::string_view is) : name(of), text(is) {}
  Value(std::string_view of, const char* is) : name(of), text(is) {}
  Value(std::string_view of, std::nullptr_t) : name(of) {}  // NULL
  Value(std::string_view of, bool is) : name(of), text(is ? "true" : "false"), type(sql::ParameterType::boolean) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Value(std::string_view of, Number is)
      : name(of),
        text(std::to_string(is)),
        type(std::is_integral_v<Number> ? sql::ParameterType::integer : sql::ParameterType::real) {}

  std::string name;                 // as in the statement, without the colon
  std::optional<std::string> text;  // absent: NULL
  sql::ParameterType type = sql::ParameterType::text;
};

// The rows of an answer, as texts. They belong to the object.
class Rows {
 public:
  [[nodiscard]] std::size_t size() const { return fields_.size() / std::max<std::size_t>(names_.size(), 1); }
  [[nodiscard]] bool empty() const { return fields_.empty(); }
  // Nothing for NULL. Throws std::out_of_range if there is no such row or column.
  [[nodiscard]] std::optional<std::string_view> at(std::size_t row, std::string_view column) const;
  // Rows that the statement has inserted, updated or deleted.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  friend class Database;
  void add(const sql::Block& block);

  struct Place {
    std::size_t begin;
    std::size_t size;  // null: NULL
  };
  static constexpr std::size_t null = SIZE_MAX;
  std::vector<std::string> names_;
  std::vector<Place> fields_;  // row by row
  std::string texts_;
  std::uint64_t changes_ = 0;
};

// A database of the configuration, for the services of one core. Statements have parameters as in the configuration:
// `SELECT text FROM messages WHERE room = :room`. Each text is prepared once on each core, so it should be a constant.
// A task that is cancelled cancels its statement.
class Database {
 public:
  static constexpr Duration patience = 10s;             // by default
  static constexpr std::size_t most_bytes = 16 << 20;   // of an answer's values; beyond it: Failure::too_large
  static constexpr std::size_t most_statements = 1000;  // beyond it all are prepared again

  explicit Database(core::Reactor& reactor) : reactor_(reactor) {}
  Database(const Database&) = delete;

  using Result = std::expected<Rows, sql::Error>;
  // auto rows = co_await database.read("SELECT ...", Value("room", room)). The statement must not write.
  template <class... Values>
    requires(std::same_as<Values, Value> && ...)
  [[nodiscard]] core::Task<Result> read(std::string_view statement, Values... values) {
    return read(statement, list(std::move(values)...), patience);
  }
  [[nodiscard]] core::Task<Result> read(std::string_view statement, std::vector<Value> values, Duration timeout);
  // Executes one statement in a transaction of its own. Returns the rows of RETURNING, and changes().
  template <class... Values>
    requires(std::same_as<Values, Value> && ...)
  [[nodiscard]] core::Task<Result> write(std::string_view statement, Values... values) {
    return write(statement, list(std::move(values)...), patience);
  }
  [[nodiscard]] core::Task<Result> write(std::string_view statement, std::vector<Value> values, Duration timeout);
  // Executes the statements one after the other in one transaction: all of them take effect, or none. Returns the rows
  // of each.
  struct Step {
    std::string_view statement;  // valid until the call ends
    std::vector<Value> values = {};
  };
  using Results = std::expected<std::vector<Rows>, sql::Error>;
  [[nodiscard]] core::Task<Results> write_all(std::vector<Step> steps, Duration timeout = patience);

 private:
  friend class Databases;
  using Prepared = std::shared_ptr<const sql::Statement>;
  struct Call {
    Prepared statement;
    std::vector<sql::Argument> arguments;  // views of the values
  };
  // Prepares the statement unless it is prepared already.
  core::Task<std::expected<Call, sql::Error>> prepare(const std::shared_ptr<sql::Database>& database,
                                                      std::string_view text, bool writes,
                                                      const std::vector<Value>& values);
  void set(std::shared_ptr<sql::Database> database);
  // g++ 12 takes no braces with several values within co_await.
  template <class... Values>
  static std::vector<Value> list(Values... values) {
    std::vector<Value> all;
    all.reserve(sizeof...(values));
    (all.push_back(std::move(values)), ...);
    return all;
  }

  core::Reactor& reactor_;
  std::shared_ptr<sql::Database> database_;                // null: a reload has removed it
  std::unordered_map<std::string, Prepared> prepared_[2];  // to read, to write
};

// The databases of the configuration on one core. Program adds it to every name of services.
class Databases final : public msg::Service {
 public:
  explicit Databases(core::Reactor& reactor) : reactor_(reactor) {}

  // For configure(); the object lives as long as the service. Throws std::out_of_range, which says which there are.
  [[nodiscard]] Database& at(std::string_view name);
  // For the program: the databases of the configuration that is served from now on. Calls to others fail from now on.
  void set(const std::vector<std::pair<std::string, std::shared_ptr<sql::Database>>>& databases);

 private:
  core::Reactor& reactor_;
  std::map<std::string, std::unique_ptr<Database>, std::less<>> all_;
};

// The database [database.NAME]. Throws as Databases::at(), and std::logic_error in a Host, which has none.
[[nodiscard]] Database& database(msg::Context& context, std::string_view name);

}  // namespace sluice::services
