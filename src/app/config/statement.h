#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "app/config/source.h"
#include "sql/database.h"

// What comes out when the database prepares an endpoint's statement, as complaints about the file.
namespace sluice::app::config {

// The database refused one of the endpoint's statements: its words, at the place in the statement that it named.
[[nodiscard]] Diagnostic statement_refused(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                                           const sql::Error& error, const Source& source);

// Parameters that are declared in [endpoint.params] or in the path, and that no statement uses: `used` are the names in
// all that have been prepared.
void check_parameters(const api::EndpointOptions& endpoint, const std::vector<std::string_view>& used,
                      const Source& source, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
