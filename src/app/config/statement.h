#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "app/config/source.h"
#include "sql/database.h"
#include "sql/parameters.h"

// Errors in an endpoint's statements that appear when the database prepares them, as errors in the file.
namespace sluice::app::config {

// Makes an error from the message with which a database refused a statement, at the position that the database named.
// `whose`: such as "endpoint /films". `meant`: a suggestion, or empty.
[[nodiscard]] Diagnostic statement_refused(std::string_view whose, const Located<std::string>& statement,
                                           const sql::Error& error, const Source& source, std::string meant = {});

// Reports two columns with the same name: each row would be an object with a duplicate key.
void check_columns(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                   std::span<const sql::Column> columns, std::vector<Diagnostic>& errors);

// Reports parameters within quotes, alone or between wildcards, because they are text there. It is an error if the
// endpoint or the statement has a parameter of that name; otherwise the text may be intended, and it is a warning.
// Returns the names that it has reported as errors.
std::vector<std::string> check_quoted(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                                      sql::PlaceholderStyle style, const Source& source,
                                      std::vector<Diagnostic>& errors, std::vector<std::string>& warnings);

// Reports parameters that are declared in [endpoint.params] or in the path but that no statement uses. `used`: the
// names in all prepared statements.
void check_parameters(const api::EndpointOptions& endpoint, const std::vector<std::string_view>& used,
                      sql::PlaceholderStyle style, const Source& source, std::vector<Diagnostic>& errors);

// The statements of an endpoint in the file: `get`, and those of each method that writes.
[[nodiscard]] std::vector<const Located<std::string>*> statements_of(const api::EndpointOptions& endpoint);

}  // namespace sluice::app::config
