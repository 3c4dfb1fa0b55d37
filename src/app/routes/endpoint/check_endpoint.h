#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "app/config/complain.h"
#include "app/options.h"
#include "http/router.h"

// Checks the combination of an endpoint's own keys. Its database has been chosen, if there is one to choose.
namespace sluice::app::config {

class Checks;

// Null if no database has that name.
[[nodiscard]] const sql::DatabaseOptions* database_of(const Options& options, std::string_view name);

void check_parallel(const Options& options, const api::EndpointOptions& endpoint, const http::Pattern& pattern,
                    const Complain& complain);
void check_errors(const std::vector<Named<api::ErrorOptions>>& errors, const Complain& complain);
void check_limits_of_bodies(const Options& options, const api::EndpointOptions& endpoint, const Complain& complain);
// Whether one of its methods may answer with rows.
[[nodiscard]] bool answers_with_rows(const api::EndpointOptions& endpoint);
void check_formats(const api::EndpointOptions& endpoint, const Complain& complain);
void check_list(const api::EndpointOptions& endpoint, const Complain& complain);
void check_version(const api::EndpointOptions& endpoint, const Complain& complain);
// Checks `values`, `min` and `max`. `declared`: the type of the value, in [endpoint.params] or the path.
void check_allowed(std::string_view name, const api::ParamOptions& options, std::optional<sql::ParameterType> declared,
                   const Complain& complain);
// Checks `hash`, `min_length` and `common`.
void check_hash(std::string_view name, const api::ParamOptions& options, const Complain& complain);
// Returns false if no further checks make sense.
[[nodiscard]] bool check_changes(const Options& options, const api::EndpointOptions& endpoint,
                                 const Complain& complain);
// Checks a method that writes, except for the sources of its columns.
void check_writing(const Options& options, const api::EndpointOptions& endpoint, http::Method method,
                   const api::MethodOptions& writing, const Complain& complain);

// All checks of one endpoint: of [[endpoint]], or of another table that answers as one.
void check_endpoint(Checks& checks, api::EndpointOptions& endpoint);

}  // namespace sluice::app::config
