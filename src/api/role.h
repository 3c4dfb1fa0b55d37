#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/source.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "sql/options.h"
#include "sql/transaction.h"

namespace sluice::api {

// The PostgreSQL role of a request, for row-level security, and the settings that its statements can read: `role` and
// `settings` of [database.NAME]. Created at start, immutable, shared by all cores.
struct RolePlan {
  std::optional<Source> source;
  std::string anonymous;         // the role if the source has no value; if empty, such a request is refused
  std::vector<Source> settings;  // each source is named after its setting

  // Whether requests run under a role. If not, they run as the login, with the settings.
  [[nodiscard]] bool takes_role() const { return source || !anonymous.empty(); }
};

// Null if the database has neither roles nor settings. Everything then runs as its login.
[[nodiscard]] std::shared_ptr<const RolePlan> role_plan(const sql::DatabaseOptions& options);

// Checks `role`. Returns what is wrong with it, or an empty string.
[[nodiscard]] std::string check_role(std::string_view source);

// Checks the name and the source of a setting. Returns what is wrong with them, or an empty string.
[[nodiscard]] std::string check_setting(std::string_view name, std::string_view source);

// The settings of one transaction: `role`, and those that policies and functions read with current_setting():
// `request.jwt.claims` (the payload of the verified token as JSON; "" without one), `request.method`, `request.path`,
// `request.client_address`, `request.id` ("" without one), and the configured ones. An error is the answer.
[[nodiscard]] std::expected<std::vector<sql::Setting>, http::Response> settings_of(const RolePlan& plan,
                                                                                   const http::Exchange& exchange);

}  // namespace sluice::api
