#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/source.h"
#include "http/message.h"
#include "sql/options.h"
#include "sql/transaction.h"

namespace sluice::api {

// For whom PostgreSQL takes a request, so that its row-level security decides: [database.NAME] role. Made at start,
// immutable, shared by all cores.
struct RolePlan {
  std::optional<Source> source;
  std::string anonymous;  // where the source has nothing; empty: such a request is refused
};

// Null: the database has no roles, and everything runs as its login.
[[nodiscard]] std::shared_ptr<const RolePlan> role_plan(const sql::DatabaseOptions& options);

// What is wrong with `role`, or nothing.
[[nodiscard]] std::string check_role(std::string_view source);

// Of one transaction: `role`, and what policies and functions may ask for with current_setting(): `request.jwt.claims`
// (the payload of the verified token as JSON; "" without one), `request.method`, `request.path`. An error is the
// answer.
[[nodiscard]] std::expected<std::vector<sql::Setting>, http::Response> settings_of(const RolePlan& plan,
                                                                                   const http::Request& request);

}  // namespace sluice::api
