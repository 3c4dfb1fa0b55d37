#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/openapi/document.h"
#include "app/config/source.h"
#include "app/loop.h"
#include "app/plan.h"
#include "sql/open.h"
#include "sql/set/constraints.h"

namespace sluice::app {

// A database that is no longer there, which ends the preparation.
struct Away {
  std::size_t database = 0;  // index in options.databases
  sql::Error error;
};

// What routes are prepared with: the options of the whole file, and its databases, opened. Errors of the file gather,
// each at its place.
struct Preparation {
  struct Opened {
    std::unique_ptr<sql::SharedDatabase> shared;
    std::unique_ptr<sql::Database> database;              // destroyed first; null: it was complained about
    std::shared_ptr<const sql::Constraints> constraints;  // null until somebody asks for them
  };

  [[nodiscard]] const Options& options() const { return plan.options; }
  // Of a policy that a route uses.
  [[nodiscard]] std::vector<api::openapi::Security> security(const std::vector<Located<std::string>>& use);

  Loop& loop;
  Plan& plan;
  const Plan* const previous;  // that is served; may be null
  const config::Source& source;
  std::vector<config::Diagnostic>& errors;
  std::vector<Opened> databases;        // by index in options.databases
  std::set<std::string> used_policies;  // by name
};

// A kind of route: adds what it makes of its part of the options to plan.routes.
struct Kind {
  std::expected<void, Away> (*prepare)(Preparation& preparation);
};

// In the order in which they are prepared.
[[nodiscard]] std::span<const Kind* const> kinds();

}  // namespace sluice::app
