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
  std::optional<std::string_view> text;  // absent: NULL
  bool left_out = false;                 // the row leaves out this optional column, which keeps its value
  ParameterType type{};                  // SQLite: the type of the stored value, if the column has none
};

// A row that cannot be part of the set.
struct StagedFault {
  std::uint64_t line = 0;  // as given to add()
  std::uint64_t row = 0;   // 0-based
  std::string column;      // may be empty
  std::string reason;
  std::uint64_t twin_line = 0;               // line of the earlier row with the same key, if the key is a duplicate
  std::shared_ptr<const BrokenRule> rule{};  // null: the database reports no such details
};

// How many rows a set may delete: a number, or a percentage of the existing rows in its scope.
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
  std::vector<StagedFault> faults;  // if not empty, nothing has been written
  std::uint64_t taken = 0;  // if not 0, nothing has been written, because the deletion would cascade to this many rows
  bool too_many_deleted = false;           // nothing has been written, because it would delete more rows than allowed
  bool outside = false;                    // the faults are rows of the table outside of the set's scope
  std::shared_ptr<const Error> refusal{};  // the faults are rows that the database refuses; this is its first error
};

inline constexpr const char* outside_reason = "is there already, and no part of what is replaced";
inline constexpr std::size_t most_staged_faults = 100;

struct ApplyOptions {
  bool commit = true;         // false: counts the changes without making them
  std::uint32_t retries = 0;  // how often the transaction is retried after a conflict with another one
  Instant deadline = never;   // `never`: the database's statement timeout applies
  DeletionLimit deletions{};  // applies only if `commit`

  [[nodiscard]] bool allow(const SetOutcome& outcome) const {
    return deletions.allows(outcome.deleted, outcome.deleted + outcome.updated + outcome.unchanged);
  }
};

// Collects the rows of one set in the database and applies them. Each call must end before the next one. After an
// error, and after apply(), the object can only be destroyed. Rows that were not applied leave no trace.
class Staging : public core::SlabAllocated {
 public:
  virtual ~Staging() = default;
  // Adds rows: `values` is row-major, in the order of SetPlan::staged; `lines` has a line for each row. Waits while the
  // database is slower than the caller.
  [[nodiscard]] virtual core::Task<std::expected<void, Error>> add(std::span<const StagedValue> values,
                                                                   std::span<const std::uint64_t> lines) = 0;
  // Whether adding more rows is useless because those added so far are refused; apply() reports the reason.
  [[nodiscard]] virtual bool is_refused() const { return false; }
  // Writes all rows in one transaction. `arguments` are in the order of SetPlan::parameters.
  [[nodiscard]] virtual core::Task<std::expected<SetOutcome, Error>> apply(std::span<const Argument> arguments,
                                                                           const ApplyOptions& options) = 0;
};

}  // namespace sluice::sql
