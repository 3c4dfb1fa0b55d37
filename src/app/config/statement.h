#pragma once

#include <vector>

#include "api/options.h"
#include "app/config/source.h"
#include "sql/database.h"

// What comes out when the database prepares an endpoint's statement, as complaints about the file.
namespace sluice::app::config {

// The database refused `endpoint.get`: its words, at the place in the statement that it named.
[[nodiscard]] Diagnostic statement_refused(const api::EndpointOptions& endpoint, const sql::Error& error,
                                           const Source& source);

// Parameters that are declared in [endpoint.params] or in the path, and that the prepared statement does not use.
void check_parameters(const api::EndpointOptions& endpoint, const sql::Statement& statement, const Source& source,
                      std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
