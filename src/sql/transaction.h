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

// PostgreSQL: a parameter of the session, for one transaction alone. `role` is SET LOCAL ROLE.
struct Setting {
  std::string name;
  std::string value;
};

struct TransactionOptions {
  Instant deadline = never;  // for all of it; `never`: the database's own statement timeout for each wait
  Isolation isolation = Isolation::standard;  // SQLite's is always serializable
  std::span<const Setting> settings{};        // PostgreSQL only; read before begin() returns
  // No statement writes. SQLite: it waits for no write, and no write waits for it.
  bool reads_only = false;
  // finish() rolls back, and succeeds, where its statement is Written::nothing().
  bool must_do = false;
  // What one statement may return: bytes of values, and one for each. More is an error with `over_result_limit`.
  std::size_t result_bytes = 16 << 20;
};

// An SQLSTATE: configuration_limit_exceeded.
inline constexpr std::string_view over_result_limit = "53400";

// What one statement of a transaction has done. Its rows (of RETURNING, or of a SELECT) are its own.
struct Written {
  std::uint64_t changes = 0;  // rows inserted, updated or deleted by the statement itself
  Block rows;                 // all of them: `last` is set
  std::shared_ptr<const void> owner;

  // It has found no row: it has returned none, or, without columns to return, changed none.
  [[nodiscard]] bool nothing(bool has_columns) const { return has_columns ? rows.rows == 0 : changes == 0; }
};

// Statements that are committed together or not at all. Destroyed before a commit has succeeded, it is rolled back; one
// whose commit is on its way then may still be committed. One call at a time, each until its end; after an error there
// is nothing left but to destroy it. Statements have been prepared by Database::prepare_writing(); they and what is
// given to begin() outlive it.
class Transaction : public core::SlabAllocated {
 public:
  virtual ~Transaction() = default;
  // `arguments` are copied before the first suspension.
  [[nodiscard]] virtual core::Task<std::expected<Written, Error>> execute(const Statement& statement,
                                                                          std::span<const Argument> arguments) = 0;
  // The last statement together with the commit: one round trip, and for SQLite one commit with others' requests where
  // it is the only one. A success has been committed, but for `must_do`. More rows than `most_rows` are an error
  // (Failure::statement), and nothing is committed.
  [[nodiscard]] virtual core::Task<std::expected<Written, Error>> finish(const Statement& statement,
                                                                         std::span<const Argument> arguments,
                                                                         std::size_t most_rows) = 0;
  [[nodiscard]] virtual core::Task<std::expected<void, Error>> commit() = 0;
  // The statements that follow run as the first ones of a transaction with these settings would: user, role and
  // parameters that earlier ones have set, also SET LOCAL in a function, do not hold for them. `reads`: it is one
  // statement, by execute(), and PostgreSQL refuses it if a function that it calls writes.
  virtual void renew(std::span<const Setting> /*settings*/, bool /*reads*/) {}
};

}  // namespace sluice::sql
