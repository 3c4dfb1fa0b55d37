#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/source.h"
#include "http/request.h"
#include "http/response.h"
#include "sql/options.h"
#include "sql/transaction.h"

namespace sluice::api {

// For whom PostgreSQL takes a request, so that its row-level security decides, and what statements may ask of the
// request: `role` and `settings` of [database.NAME]. Made at start, immutable, shared by all cores.
struct RolePlan {
  std::optional<Source> source;
  std::string anonymous;         // where the source has nothing; empty: such a request is refused
  std::vector<Source> settings;  // their names are those of the settings

  // Else it runs as the login, with settings.
  [[nodiscard]] bool takes_role() const { return source || !anonymous.empty(); }
};

// Null: the database has neither roles nor settings, and everything runs as its login.
[[nodiscard]] std::shared_ptr<const RolePlan> role_plan(const sql::DatabaseOptions& options);

// What is wrong with `role`, or nothing.
[[nodiscard]] std::string check_role(std::string_view source);

// What is wrong with a setting of this name, or with where it comes from; or nothing.
[[nodiscard]] std::string check_setting(std::string_view name, std::string_view source);

// Of one transaction: `role`, and what policies and functions may ask for with current_setting(): `request.jwt.claims`
// (the payload of the verified token as JSON; "" without one), `request.method`, `request.path`,
// `request.client_address`, and the configured ones. An error is the answer.
[[nodiscard]] std::expected<std::vector<sql::Setting>, http::Response> settings_of(const RolePlan& plan,
                                                                                   const http::Request& request);

}  // namespace sluice::api
