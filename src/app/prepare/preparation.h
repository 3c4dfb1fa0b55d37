#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/openapi/document.h"
#include "app/config/source.h"
#include "app/plan.h"
#include "app/prepare/loop.h"
#include "sql/enums.h"
#include "sql/open.h"
#include "sql/set/constraints.h"

namespace sluice::app {

// A database became unreachable. This ends the preparation.
struct Away {
  std::size_t database = 0;  // index in options.databases
  sql::Error error;
};

// Whether the database cannot be reached now.
[[nodiscard]] inline bool is_away(const sql::Error& error) {
  return error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost;
}

// The input when a kind prepares its routes: the options of the whole file and its databases, opened. Errors are
// collected with their places in the file.
struct Preparation {
  struct Opened {
    std::unique_ptr<sql::SharedDatabase> shared;
    std::unique_ptr<sql::Database> database;                  // destroyed first; null if an error was reported for it
    std::shared_ptr<const sql::Constraints> constraints;      // null until they are needed
    std::shared_ptr<const std::vector<sql::EnumType>> enums;  // for [openapi]; null until they are needed
  };

  [[nodiscard]] const Options& options() const { return plan.options; }
  // The security schemes of the policies that a route uses.
  [[nodiscard]] std::vector<api::openapi::Security> security(const std::vector<Located<std::string>>& use);

  // The enum types of the database, if there is [openapi]; otherwise an empty list.
  [[nodiscard]] std::shared_ptr<const std::vector<sql::EnumType>> enums_of(std::size_t database);

  Loop& loop;
  Plan& plan;
  const Plan* const previous;  // the plan that is served; may be null
  const unsigned cores;        // of the process
  const bool advises;          // look for advice that only `sluice check` prints
  const config::Source& source;
  std::vector<config::Diagnostic>& errors;
  std::vector<Opened> databases;        // by index in options.databases
  std::set<std::string> used_policies;  // by name
};

}  // namespace sluice::app
