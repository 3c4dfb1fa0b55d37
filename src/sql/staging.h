#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/task.h"
#include "sql/transaction.h"

namespace sluice::sql {

struct Argument;
struct BrokenRule;
struct Error;
struct SetPlan;
enum class ParameterType : std::uint8_t;

// One value of a staged row.
struct StagedValue {
  std::optional<std::string_view> text;  // none: NULL
  bool left_out = false;                 // of an optional column: it stays as it is
  ParameterType type{};                  // SQLite: what a column without a type of its own stores it as
};

// A row that the set cannot have.
struct StagedFault {
  std::uint64_t line = 0;  // as it was given
  std::uint64_t row = 0;   // 0-based
  std::string column;      // may be empty
  std::string reason;
  std::uint64_t twin_line = 0;               // of the earlier row with the same key, where that is what is wrong
  std::shared_ptr<const BrokenRule> rule{};  // null: the database says of none
};

// How many rows a set may delete: a number of them, or a share of those that it may change.
struct DeletionLimit {
  std::uint64_t amount = UINT64_MAX;
  bool percent = false;

  [[nodiscard]] bool allows(std::uint64_t deleted, std::uint64_t existing) const {
    return percent ? deleted * 100 <= amount * existing : deleted <= amount;
  }
};

struct SetOutcome {
  std::uint64_t inserted = 0;
  std::uint64_t updated = 0;
  std::uint64_t deleted = 0;
  std::uint64_t unchanged = 0;
  std::vector<StagedFault> faults;         // not empty: nothing has been written
  std::uint64_t taken = 0;                 // not 0: nothing has been written, for deleting would take these rows along
  bool too_many_deleted = false;           // nothing has been written, for it would delete more than is allowed
  bool outside = false;                    // what is wrong with them: the table has them, and the set does not
  std::shared_ptr<const Error> refusal{};  // likewise: the database refuses them, and this is what it said first
};

inline constexpr const char* outside_reason = "is there already, and no part of what is replaced";
inline constexpr std::size_t most_staged_faults = 100;

struct ApplyOptions {
  bool commit = true;         // false: finds out what would change, and changes nothing
  std::uint32_t retries = 0;  // how often the transaction is tried again where another one is in its way
  Instant deadline = never;   // `never`: the database's statement timeout holds
  DeletionLimit deletions{};  // of what is committed

  [[nodiscard]] bool allow(const SetOutcome& outcome) const {
    return deletions.allows(outcome.deleted, outcome.deleted + outcome.updated + outcome.unchanged);
  }
};

// The rows of one set on their way into the database, and what becomes of them. One call at a time, each until its end;
// after an error, and after apply(), it can only be destroyed. What was not applied leaves no trace.
class Staging : public core::SlabAllocated {
 public:
  virtual ~Staging() = default;
  // More rows: `values` is row-major, in the order of SetPlan::staged; `lines` has a line for each row. Waits while the
  // database takes them more slowly than they come.
  [[nodiscard]] virtual core::Task<std::expected<void, Error>> add(std::span<const StagedValue> values,
                                                                   std::span<const std::uint64_t> lines) = 0;
  // Whether no more rows are of use: what is wrong with those that were added is known, and apply() tells.
  [[nodiscard]] virtual bool is_refused() const { return false; }
  // In one transaction. `arguments` are in the order of SetPlan::parameters.
  [[nodiscard]] virtual core::Task<std::expected<SetOutcome, Error>> apply(std::span<const Argument> arguments,
                                                                           const ApplyOptions& options) = 0;
};

}  // namespace sluice::sql
