#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "app/config/source.h"
#include "sql/database.h"
#include "sql/parameters.h"

// What comes out when the database prepares an endpoint's statement, as complaints about the file.
namespace sluice::app::config {

// The database refused a statement: its words, at the place in the statement that it named. `whose`: "endpoint /films";
// `meant`: what may have been meant, or nothing.
[[nodiscard]] Diagnostic statement_refused(std::string_view whose, const Located<std::string>& statement,
                                           const sql::Error& error, const Source& source, std::string meant = {});

// Two columns with one name: each row would be an object that has a key twice.
void check_columns(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                   std::span<const sql::Column> columns, std::vector<Diagnostic>& errors);

// Parameters within quotes, alone or between wildcards, which are text there. An error where the endpoint or the
// statement has a parameter of that name; else the text may be meant, and it is a warning. Returns the names of which
// it has complained.
std::vector<std::string> check_quoted(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                                      sql::PlaceholderStyle style, const Source& source,
                                      std::vector<Diagnostic>& errors, std::vector<std::string>& warnings);

// Parameters that are declared in [endpoint.params] or in the path, and that no statement uses: `used` are the names in
// all that have been prepared.
void check_parameters(const api::EndpointOptions& endpoint, const std::vector<std::string_view>& used,
                      sql::PlaceholderStyle style, const Source& source, std::vector<Diagnostic>& errors);

// The statements that the file writes for an endpoint: of `get`, and of each method `before`, `existing` and `sql`.
[[nodiscard]] std::vector<const Located<std::string>*> statements_of(const api::EndpointOptions& endpoint);

}  // namespace sluice::app::config
