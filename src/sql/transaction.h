#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/declare.h"
#include "base/time.h"
#include "core/slab.h"
#include "core/task.h"
#include "sql/rows.h"

namespace sluice::sql {

struct Argument;
struct Error;
struct Statement;

enum class Isolation : std::uint8_t { standard, read_committed, repeatable_read, serializable };

inline NameOf<Isolation> names_of(Isolation) {
  return {{"default", Isolation::standard},
          {"read committed", Isolation::read_committed},
          {"repeatable read", Isolation::repeatable_read},
          {"serializable", Isolation::serializable}};
}

// PostgreSQL: a session parameter that is set for one transaction only. `role` means SET LOCAL ROLE.
struct Setting {
  std::string name;
  std::string value;
};

struct TransactionOptions {
  Instant deadline = never;  // of the whole transaction; `never`: the database's own statement timeout for each wait
  Isolation isolation = Isolation::standard;  // SQLite is always serializable
  std::span<const Setting> settings{};        // PostgreSQL only; read before begin() returns
  // No statement writes. SQLite: the transaction waits for no writer, and no writer waits for it.
  bool reads_only = false;
  // If the last statement did nothing (Written::nothing()), finish() rolls back and still succeeds.
  bool must_do = false;
  // The most bytes of values that one statement may return; each value counts one extra byte. Exceeding it is an error
  // (Failure::too_large).
  std::size_t result_bytes = 16 << 20;
};

// The result of one statement of a transaction. It owns its rows (of RETURNING, or of a SELECT).
struct Written {
  std::uint64_t changes = 0;  // rows that the statement itself inserted, updated or deleted
  Block rows;                 // all rows: `last` is set
  std::shared_ptr<const void> owner;

  // Whether the statement returned no row, or, if it has no columns, changed no row.
  [[nodiscard]] bool nothing(bool has_columns) const { return has_columns ? rows.rows == 0 : changes == 0; }
};

// Statements that are committed together or not at all. If a transaction is destroyed before its commit has succeeded,
// it is rolled back, except that a commit that was already sent may still take effect. Each call must end before the
// next one. After an error the transaction can only be destroyed. Statements must come from
// Database::prepare_writing(); they and the options given to begin() outlive the transaction.
class Transaction : public core::SlabAllocated {
 public:
  virtual ~Transaction() = default;
  // `arguments` are copied before the first suspension.
  [[nodiscard]] virtual core::Task<std::expected<Written, Error>> execute(const Statement& statement,
                                                                          std::span<const Argument> arguments) = 0;
  // Executes the last statement together with the commit, in one round trip. SQLite may commit it together with other
  // requests if it is the only statement. Success means that it was committed, except under `must_do`. More rows than
  // `most_rows` are an error (Failure::statement), and nothing is committed. PostgreSQL: a row that is too long to be
  // returned is such an error too, if the statement is the only one and inserts one row, which is then committed.
  [[nodiscard]] virtual core::Task<std::expected<Written, Error>> finish(const Statement& statement,
                                                                         std::span<const Argument> arguments,
                                                                         std::size_t most_rows) = 0;
  [[nodiscard]] virtual core::Task<std::expected<void, Error>> commit() = 0;
  // The statements that follow run as if they were the first of a transaction with these settings: earlier changes of
  // user, role and parameters, including SET LOCAL in a function, no longer apply. `reads`: only one statement follows,
  // by execute(), and PostgreSQL refuses it if a function that it calls writes.
  virtual void renew(std::span<const Setting> /*settings*/, bool /*reads*/) {}
};

}  // namespace sluice::sql
